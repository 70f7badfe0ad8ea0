/* knobs: sets a knob for a test, before or after the start of HAKMEM. */
#ifndef TEST_SUPPORT_KNOBS_H
#define TEST_SUPPORT_KNOBS_H

#include "policy/policy.h"

#define SET_KNOB(name, number)                                                                                         \
    do {                                                                                                               \
        hk_options.name = (number);                                                                                    \
        hk_policy_begin();                                                                                             \
    } while (0)

#endif
