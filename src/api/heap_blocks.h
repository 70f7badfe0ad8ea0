/* Declares how blocks of user heaps are allocated and freed after a miss, and how realloc resizes them.
 * Threads  Any thread may allocate. Any thread may free or resize a block that no other thread uses. */
#ifndef HK_HEAP_BLOCKS_H
#define HK_HEAP_BLOCKS_H

#include "tcache/layout.h"

/* Sets errno to `error` and returns NULL. */
void *hk_failed(int error);
/* Allocates a block of a user heap after a miss. Returns NULL and sets errno if memory is refused or the heap has ended. */
void *hk_heap_alloc_slow(struct hak_heap *heap, size_t size, size_t align, bool *zeroed);
/* Frees a block whose page map entry names a heap. */
void hk_free_in_heap(enum hk_call call, void *block, uint32_t entry, struct hk_thread_state *hot);
/* Frees a block of a heap after a miss: the cache of the thread has no room, the heap has ended, or attach sampling has picked the block. */
void hk_free_in_heap_slow(enum hk_call call, void *block, uint32_t entry);
/* Resizes a heap's block for realloc. The block stays in its heap. Returns NULL and sets errno if memory is refused. */
void *hk_heap_resized(void *block, size_t size);

#endif
