/* Shadow: which bytes of the address space are a live block's, 16 at a time, apart from the heap under test.
 * Threads  any: the quanta of a block are those of the thread that has it. */
#ifndef TEST_FUZZ_SHADOW_H
#define TEST_FUZZ_SHADOW_H

#include <stdbool.h>
#include <stddef.h>

/* For each process that runs the driver: no block is live. */
void shadow_begin(void);
/* Enters a new block. False if it overlaps another. */
bool shadow_enter(const void *block, size_t size);
/* Takes a block out again. False if it was not there as a whole. */
bool shadow_leave(const void *block, size_t size);

#endif
