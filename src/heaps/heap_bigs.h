/* Heap bigs: the big blocks of a heap, each with a mapping of its own that the room big makes and caches.
 *
 * Owns       the list of a heap's big blocks, the note in the descriptor of each that leads to it, and the page map entry, which names the heap.
 * Invariant  a big block has a note and such an entry exactly while it is a heap's. A heap is charged the bytes that the program has of the block;
 *            slack, and blocks that were freed, are the process's.
 * Threads    as the blocks: the thread that has one. hk_heap_bigs_end(): any, while nobody uses the heap. */
#ifndef HK_HEAP_BIGS_H
#define HK_HEAP_BIGS_H

#include "big/big.h"
#include "big/big_block.h"
#include "heaps/heap_state.h"

void *hk_heap_big_alloc(struct hak_heap *heap, size_t size, size_t align, bool *zeroed, bool *by_limit);
/* Frees a big block of a heap. Fatal, here and below, unless one begins there. */
void hk_heap_big_free(enum hk_call call, void *block);
/* Resizes it as hk_big_resize() does, within the limit. */
void *hk_heap_big_resize(void *block, size_t size);
size_t hk_heap_big_bytes(enum hk_call call, const void *block);
/* In a fork child: charges the heap what its list has. Another thread may have been cut off between the two. */
void hk_heap_bigs_recount(struct hak_heap *heap);
/* Frees all big blocks of the heap. */
void hk_heap_bigs_end(struct hak_heap *heap);

#endif
