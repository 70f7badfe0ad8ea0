/* Large block: the descriptor of a block in a mapping of its own.
 * Threads  the large lock guards all fields, but for `d` and `requested` while the block is in use: its thread reads them without. */
#ifndef HK_LARGE_BLOCK_H
#define HK_LARGE_BLOCK_H

#include "base/bits.h"
#include "base/list.h"
#include "os/os.h"
#include "span/descriptor.h"

/* Returns how many bytes of a block on huge pages lie on small ones before the first huge page: whole pages of the system. A program that
 * writes only the beginning then pays for no huge page. Slack of at most so many bytes stays, because a cut would split the last huge page. */
HK_INLINE size_t hk_large_lead(void) { return hk_max((size_t)4 * HK_PAGE, hk_system_page()); }

struct hk_large_block {
    struct hk_descriptor d;          /* bytes: of the mapping */
    size_t requested;                /* bytes that the program has; the slack lies behind, up to `bytes` */
    uint64_t idle_since;             /* ms: the slack, or all of a cached block (see HK_LARGE_UNSEEN) */
    struct hk_link link;             /* linked while the block is cached, kept or pending_unmap */
    struct hk_link by_slack;         /* linked while the block is in use and has slack that may be cut off */
    struct hk_link by_size;          /* linked while the block is in a bin of fit.h */
    struct hk_large_block *child[2]; /* see extents.h */
    uint16_t idle_from;              /* the age stamp of its last free */
    bool modified;                   /* the program has changed its mapping */
    uint32_t uncut; /* slack of at most so many bytes is not cut off; 0: no huge pages were requested for the block */
    bool ended;     /* its page map entry is HK_ENTRY_ENDED_LARGE, until it serves again */
    _Atomic(void *) xnote; /* of the heap that it belongs to (heaps/heap_large.h); NULL: that of the process */
} HK_ALIGNED(HK_CACHE_LINE);
_Static_assert(sizeof(struct hk_large_block) <= HK_DESCRIPTOR_BYTES - HK_CACHE_LINE,
               "the line where a slab counts remote frees stays 0");

/* Requires the address of a large block's first slice. */
HK_INLINE struct hk_large_block *hk_large_at(uintptr_t address)
{
    return (struct hk_large_block *)(void *)hk_descriptor_at(address);
}

/* True if the mapping holds so many bytes and no slack that is worth a cut. */
HK_INLINE bool hk_large_is_about(const struct hk_large_block *large, size_t bytes)
{
    return large->d.bytes - bytes <= large->uncut;
}

/* Returns the bytes of a block in use that no purge cuts off. */
HK_INLINE size_t hk_large_held(const struct hk_large_block *large)
{
    return HK_UNLIKELY(hk_link_linked(&large->by_slack)) ? large->requested : large->d.bytes;
}

#endif
