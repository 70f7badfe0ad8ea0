/* chain: a linked list of blocks that have been written to, from the newest to the oldest. */
#ifndef TEST_SUPPORT_CHAIN_H
#define TEST_SUPPORT_CHAIN_H

#include <stddef.h>

/* Allocates `bytes` bytes in blocks of `block_size`, which must hold a pointer. Returns the newest block, or aborts if there is no memory. */
void *chain_grow(size_t bytes, size_t block_size);
void chain_drop(void *chain);

#endif
