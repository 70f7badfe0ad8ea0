/* Entry: the slow paths that all exported functions share.
 * Threads  any. */
#ifndef HK_ENTRY_H
#define HK_ENTRY_H

#include "tcache/hit.h"

/* NULL with errno set to ENOMEM if memory is refused. A tail call of malloc: it reads malloc's return address itself,
 * because passing it on would cost each coarse hit an instruction. */
void *hk_malloc_slow(size_t size);
/* The same for the other functions; `caller` is the return address of the exported function. */
void *hk_malloc_slow_for(size_t size, void *caller);
/* `align` is a power of two. */
void *hk_aligned_slow(size_t align, size_t size, void *caller);
/* The misses of free and of delete (enum hk_free_end). They differ in the messages about invalid pointers. */
void hk_free_elsewhere(void *block);
void hk_delete_elsewhere(void *block);
void hk_free_not_mine(void *block, struct hk_hot *hot);
void hk_delete_not_mine(void *block, struct hk_hot *hot);
/* `offset` is that of the full bin. */
void hk_free_full(void *block, struct hk_hot *hot, size_t offset);

#endif
