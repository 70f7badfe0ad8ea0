/* Invariants: checks what must hold for the whole heap while no thread is inside the core. */
#ifndef TEST_INVARIANTS_H
#define TEST_INVARIANTS_H

#include "report/heap_stats.h"

/* Takes heap statistics, and checks them for consistency with themselves and with the rooms below. Returns NULL, or a text that says what is
 * wrong. */
const char *heap_is_wrong(struct hk_heap_stats *heap_stats);

#endif
