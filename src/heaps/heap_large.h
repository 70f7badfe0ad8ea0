/* Heap large: the large blocks of a heap, each with a mapping of its own that the room large makes and caches.
 *
 * Owns       the list of a heap's large blocks, the note in the descriptor of each that leads to it, and the page map entry, which names the heap.
 * Invariant  a large block has a note and such an entry exactly while it is a heap's. If the heap ends, the entry tells so until the addresses serve
 *            again, also when the mapping is gone. A heap is charged the bytes that the program has of the block;
 *            slack, and blocks that were freed, are the process's.
 * Threads    as the blocks: the thread that has one. hk_heap_large_end(): any, while nobody uses the heap. */
#ifndef HK_HEAP_LARGE_H
#define HK_HEAP_LARGE_H

#include "large/large.h"
#include "large/large_block.h"
#include "heaps/heap_state.h"

/* Requires a page map entry of a heap's large block. */
bool hk_heap_large_begins_at(const void *block);
void *hk_heap_large_alloc(struct hak_heap *heap, size_t size, size_t align, bool *zeroed, bool *by_limit);
/* Frees a large block of a heap. Fatal, here and below, unless one begins there. */
void hk_heap_large_free(enum hk_call call, void *block);
/* Resizes it as hk_large_resize() does, within the limit. */
void *hk_heap_large_resize(void *block, size_t size);
size_t hk_heap_large_bytes(enum hk_call call, const void *block);
/* In a fork child: charges the heap what its list has. Another thread may have been cut off between the two. */
void hk_heap_large_recount(struct hak_heap *heap);
/* Frees all large blocks of the heap. */
void hk_heap_large_end(struct hak_heap *heap);

#endif
