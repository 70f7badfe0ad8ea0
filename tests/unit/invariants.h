/* Invariants: checks what must hold for the whole heap while no thread is inside the core. */
#ifndef TEST_INVARIANTS_H
#define TEST_INVARIANTS_H

#include "report/heap_stats.h"

/* Takes heap statistics. Checks that their sums agree with each other, with the slabs, and with the page heap. Returns NULL, or a text that says
 * what is wrong. */
const char *heap_is_wrong(struct hk_heap_stats *heap_stats);

#endif
