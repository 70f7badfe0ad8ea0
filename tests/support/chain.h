/* chain: a linked list of written blocks, from the newest to the oldest. */
#ifndef TEST_SUPPORT_CHAIN_H
#define TEST_SUPPORT_CHAIN_H

#include <stddef.h>

/* So many bytes in blocks of `block_size` (room for a pointer at least); the newest. */
void *chain_grow(size_t bytes, size_t block_size);
void chain_drop(void *chain);

#endif
