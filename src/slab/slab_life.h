/* Slab life: how a slab is made and released, and the operations on a slab that may hold joined blocks.
 *
 *   descriptor, bitmaps, span -> page map entries -> the holder allocates and frees -> all free: entries 0 -> span, descriptor
 *
 * Owns       the memory of the bitmaps of slabs of more than 128 blocks.
 * Invariant  a slab is released only while all its blocks are free and no thread is about to count or to queue it.
 * Threads    make: any. The rest: the holder. */
#ifndef HK_SLAB_LIFE_H
#define HK_SLAB_LIFE_H

#include "slab/joined_blocks.h"
#include "span/page_heap.h"

/* A slab of free blocks that has no span yet, of `bytes`; the last `tail` of them hold no block. `remote` is true if threads that do not hold the
 * slab free its blocks, too. NULL if the system refuses memory for the descriptor or the bitmaps. */
struct hk_slab *hk_slab_cut(unsigned class, size_t bytes, size_t tail, bool remote);
/* Frees the descriptor and the bitmaps. */
void hk_slab_drop(struct hk_slab *slab);
/* A new slab of free blocks for `owner`; NULL if the system refuses memory. */
struct hk_slab *hk_slab_make(unsigned class, uint32_t owner, enum hk_use use);
/* Frees the span and the descriptor. All blocks must be free. */
void hk_slab_release(struct hk_slab *slab);

/* Frees one block. Fatal if no block of the slab begins there, or the block is free already. */
HK_INLINE void hk_slab_free(struct hk_slab *slab, void *block)
{
    if (hk_slab_mark_free(slab, &block))
        hk_slab_count_free(slab, 1);
    else
        hk_joined_free(slab, block);
}

/* Makes the counts agree with the bitmaps, in a fork child whose parent's holder was cut off. */
void hk_slab_recount(struct hk_slab *slab);

#endif
