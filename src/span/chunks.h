/* Chunks: the page heap's state, and the one place where slices of a chunk change from free to used and back.
 *
 *   mapped -> free, clean --use--> in use, dirty --release--> free, dirty --purge--> free, purged --use--> in use, dirty
 *
 * Owns       the lists of chunks by longest free run, by age and by hole; the counts of slices.
 * Invariant  a chunk with free slices is listed under the length of its longest free run; a chunk with free dirty slices is on by_age.
 * Threads    the holder of the page heap's lock. */
#ifndef HK_CHUNKS_H
#define HK_CHUNKS_H

#include "base/list.h"
#include "base/lock.h"
#include "span/page_map.h"

struct hk_arena {
    uint64_t listed; /* bit n: by_run[n] is not empty */
    struct hk_list by_run[HK_CHUNK_SLICES + 1];
    size_t mapped;
};

extern struct hk_page_heap {
    struct hk_lock lock;
    struct hk_lock purge_lock; /* only purges and fork wait for it */
    struct hk_arena arenas[HK_USES];
    struct hk_list by_age;
    struct hk_list holes; /* chunks with unmapped units: their addresses are used first when the heap grows again */
    size_t mapped, free_slices, free_dirty_slices;
    size_t staked_slices;
    _Atomic size_t xhollow; /* pages */
} hk_page_heap;

HK_INLINE bool hk_chunk_has_dirty(const struct hk_chunk *chunk) { return (chunk->free & chunk->dirty) != 0; }
HK_INLINE uintptr_t hk_chunk_address(const struct hk_chunk *chunk, unsigned slice)
{
    return chunk->start + ((uintptr_t)slice << HK_SLICE_SHIFT);
}
HK_INLINE unsigned hk_chunk_slice(uintptr_t address) { return (unsigned)(address >> HK_SLICE_SHIFT) % HK_CHUNK_SLICES; }
/* Free slices whose purge would gain something. */
HK_INLINE uint32_t hk_chunk_idle(const struct hk_chunk *chunk) { return chunk->free & chunk->dirty; }

/* Takes the chunk off its arena's list; lists it under its longest free run. */
void hk_chunk_unlist(struct hk_chunk *chunk);
void hk_chunk_relist(struct hk_chunk *chunk);
/* Free slices become used ones, used slices free ones. */
void hk_chunk_use(struct hk_chunk *chunk, uint32_t slices);
void hk_chunk_release(struct hk_chunk *chunk, uint32_t slices);
/* Of each of these slices, so many pages were purged before it came free. */
void hk_chunk_set_hollow(struct hk_chunk *chunk, uint32_t slices, unsigned pages);
/* Adds slices (less than 0: removes them) to the dirty ones. */
void hk_page_heap_count_dirty(int slices);
/* The kernel would reassemble the huge page, purged pages included. */
void hk_chunk_leave_huge_page(struct hk_chunk *chunk);

#endif
