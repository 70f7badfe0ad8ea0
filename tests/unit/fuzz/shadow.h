/* Shadow: records which bytes of the address space belong to live blocks. The record has a bit for each 16 bytes, in memory apart from the heap
 * under test.
 * Threads  Any thread may call these functions. The bits of a block belong to the thread that has the block. */
#ifndef TEST_FUZZ_SHADOW_H
#define TEST_FUZZ_SHADOW_H

#include <stdbool.h>
#include <stddef.h>

/* Starts a record without live blocks. Each process that runs a target calls it. */
void shadow_begin(void);
/* Enters a new block. Returns false if the block overlaps another. */
bool shadow_enter(const void *block, size_t size);
/* Removes a block. Returns false if not all of it was recorded. */
bool shadow_leave(const void *block, size_t size);

#endif
