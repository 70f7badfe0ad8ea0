/* Heap blocks: the slow paths of heaps of the program's own, and what free, realloc and malloc_usable_size do with their blocks.
 * Threads  any; the thread that has the block. */
#ifndef HK_HEAP_BLOCKS_H
#define HK_HEAP_BLOCKS_H

#include "tcache/layout.h"

/* Sets errno and returns NULL. */
void *hk_heap_failed(int error);
/* Allocates a block after a miss. Returns NULL and sets errno if memory is refused or the heap has ended. */
void *hk_heap_alloc_slow(struct hak_heap *heap, size_t size, size_t align, bool *zeroed);
/* Frees a block whose page map entry names a heap. */
void hk_free_in_heap(enum hk_call call, void *block, uint32_t entry, struct hk_thread_state *hot);
/* Does the same after hk_heaps_hit_free() has refused the block. */
void hk_free_in_heap_slow(enum hk_call call, void *block, uint32_t entry);
/* Resizes a heap's block for realloc. The block stays in its heap. Returns NULL and sets errno if memory is refused. */
void *hk_heap_resized(void *block, size_t size);

#endif
