/* knobs: a knob as a test wants it, whether HAKMEM has started or is still to. */
#ifndef TEST_SUPPORT_KNOBS_H
#define TEST_SUPPORT_KNOBS_H

#include "policy/policy.h"

#define SET_KNOB(name, number)                                                                                         \
    do {                                                                                                               \
        hk_options.name = (number);                                                                                    \
        hk_policy_begin();                                                                                             \
    } while (0)

#endif
