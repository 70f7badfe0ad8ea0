/* Invariants: true of the whole heap while no thread is inside the core. */
#ifndef TEST_INVARIANTS_H
#define TEST_INVARIANTS_H

#include "report/census.h"

/* Takes a census and holds it against itself and against the rooms below; NULL, or what is wrong with it. */
const char *heap_is_wrong(struct hk_census *census);

#endif
