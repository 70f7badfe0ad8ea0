/* Invariants: true of the whole heap while no thread is inside the core. */
#ifndef TEST_INVARIANTS_H
#define TEST_INVARIANTS_H

#include "report/heap_stats.h"

/* Takes heap statistics and checks it for consistency, and against the rooms below. Returns NULL or the breach. */
const char *heap_is_wrong(struct hk_heap_stats *heap_stats);

#endif
