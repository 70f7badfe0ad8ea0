/* Invariants: true of the whole heap while no thread is inside the core. */
#ifndef TEST_INVARIANTS_H
#define TEST_INVARIANTS_H

#include "report/census.h"

/* Takes a census and checks it for consistency, and against the rooms below. Returns NULL or the breach. */
const char *heap_is_wrong(struct hk_census *census);

#endif
