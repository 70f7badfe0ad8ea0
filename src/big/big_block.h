/* Big block: the descriptor of a block in a mapping of its own.
 * Threads  the big lock guards all fields, but for `d` and `requested` while the block is in use: its thread reads them without. */
#ifndef HK_BIG_BLOCK_H
#define HK_BIG_BLOCK_H

#include "base/list.h"
#include "span/descriptor.h"

struct hk_big_block {
    struct hk_descriptor d;        /* bytes: of the mapping */
    size_t requested;              /* bytes that the program has; the slack lies behind, up to `bytes` */
    uint64_t idle_since;           /* ms: the slack, or all of a cached block (see HK_BIG_UNSEEN) */
    struct hk_link link;           /* linked while the block is cached, kept or spoiled */
    struct hk_link by_slack;       /* linked while the block is in use and has slack */
    struct hk_link by_size;        /* linked while the block is in a bin of fit.h */
    struct hk_big_block *child[2]; /* see extents.h */
    uint16_t idle_from;            /* the age stamp of its last free */
    bool altered;                  /* the program has changed its mapping */
    bool huge;                     /* huge pages were requested for it */
    _Atomic(void *) xnote;         /* of the heap that it belongs to (heaps/heap_bigs.h); NULL: that of the process */
} HK_ALIGNED(HK_CACHE_LINE);
_Static_assert(sizeof(struct hk_big_block) <= HK_DESCRIPTOR_BYTES - HK_CACHE_LINE,
               "the line where a slab counts remote frees stays 0");

/* Requires the address of a big block's first slice. */
HK_INLINE struct hk_big_block *hk_big_at(uintptr_t address)
{
    return (struct hk_big_block *)(void *)hk_descriptor_at(address);
}

#endif
