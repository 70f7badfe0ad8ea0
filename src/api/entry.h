/* Entry: what lies behind a miss, for all of malloc's faces.
 * Threads  any. */
#ifndef HK_ENTRY_H
#define HK_ENTRY_H

#include "tcache/hit.h"

/* NULL with errno set to ENOMEM if memory is refused. Called at the end of malloc, whose return address it then has: to pass
 * that on would take an instruction more of each coarse hit. */
void *hk_malloc_slow(size_t size);
/* The same for others: `caller` is the return address of whichever of malloc's kin was called. */
void *hk_malloc_slow_for(size_t size, void *caller);
/* align is a power of two. */
void *hk_aligned_slow(size_t align, size_t size, void *caller);
/* Behind free and delete; which of them it is matters for the words of a message. */
void hk_free_elsewhere(void *block);
void hk_delete_elsewhere(void *block);
void hk_free_not_mine(void *block, struct hk_hot *hot);
void hk_delete_not_mine(void *block, struct hk_hot *hot);
/* `offset` is that of the full bin. */
void hk_free_full(void *block, struct hk_hot *hot, size_t offset);

#endif
