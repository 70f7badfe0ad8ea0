/* Chunks: holds the state of the page heap, and changes slices between free and in use.
 *
 *   mapped -> free, clean --use--> in use, dirty --release--> free, dirty --purge--> free, purged --use--> in use, dirty
 *
 * Owns       This file owns the lists of chunks by longest free run, by age and by unmapped slices, and the counts of slices.
 * Invariant  A chunk with free slices is on the list for its longest free run. A chunk with dirty free slices is on by_age.
 * Threads    The caller holds the page heap's lock. */
#ifndef HK_CHUNKS_H
#define HK_CHUNKS_H

#include "base/bits.h"
#include "base/lock.h"
#include "span/page_map.h"

struct hk_arena {
    uint64_t listed; /* bit n: by_run[n] has chunks */
    struct hk_list by_run[HK_CHUNK_SLICES + 1];
    size_t mapped;
};

extern struct hk_page_heap {
    struct hk_lock lock;
    struct hk_lock purge_lock; /* taken by purges, prefaults, the unmapping of slices, and fork */
    struct hk_arena arenas[HK_USES];
    struct hk_list by_age;
    struct hk_list holes; /* chunks with unmapped slices; growth first reuses the addresses of these slices */
    size_t free_slices, free_dirty_slices;
    uintptr_t end;          /* the end of the heap in the window; 0: the system chooses addresses */
    size_t staked_slices;   /* slices of unsure spans in dense chunks */
    _Atomic size_t xhollow; /* number of purged pages in free slices that are marked dirty */
    uint32_t window;        /* most slices that the next prefault makes resident beyond its span */
    _Atomic bool xprefault_refused;
} hk_page_heap;

extern bool hk_page_heap_guarded; /* free spans and the ends of slabs have guard pages; set at the start of HAKMEM */

HK_INLINE uintptr_t hk_chunk_address(const struct hk_chunk *chunk, unsigned slice)
{
    return chunk->start + ((uintptr_t)slice << HK_SLICE_SHIFT);
}
HK_INLINE unsigned hk_chunk_slice(uintptr_t address) { return (unsigned)(address >> HK_SLICE_SHIFT) % HK_CHUNK_SLICES; }
/* Returns the slices that a purge can reclaim. */
HK_INLINE uint32_t hk_chunk_idle(const struct hk_chunk *chunk) { return chunk->free & chunk->dirty; }

/* unlist takes the chunk off the list of its longest free run. relist puts the chunk on the list of the run that is its longest now. */
void hk_chunk_unlist(struct hk_chunk *chunk);
void hk_chunk_relist(struct hk_chunk *chunk);
/* hk_chunk_withdraw() takes free slices away from allocation, for example while they are purged. hk_chunk_use() withdraws slices for a span, and
 * marks them as dirty. hk_chunk_release() makes slices free again. */
HK_INLINE void hk_chunk_withdraw(struct hk_chunk *chunk, uint32_t slices)
{
    hk_page_heap.free_slices -= hk_popcount64(slices);
    hk_page_heap.free_dirty_slices -= hk_popcount64(slices & chunk->dirty);
    chunk->free &= ~slices;
    chunk->aged &= ~slices;
    hk_chunk_relist(chunk);
}
void hk_chunk_use(struct hk_chunk *chunk, uint32_t slices);
void hk_chunk_release(struct hk_chunk *chunk, uint32_t slices);
/* Stores that `pages` pages of each of these slices were purged before the slice was freed. */
void hk_chunk_set_hollow(struct hk_chunk *chunk, uint32_t slices, unsigned pages);
void hk_page_heap_count_dirty(int slices);
/* Stores that the chunk stands on no huge page, and advises the kernel against a huge page for the chunk. */
void hk_chunk_leave_huge_page(struct hk_chunk *chunk);

/* Growth (heap_growth.c) maps new chunks for an arena. The chunks stand on huge pages if the policy says so, and if the system's huge pages have the
 * size of a chunk. In the window, each mapping begins at the end of the previous mapping, because the system then merges the two mappings. Mappings
 * of whole chunks are aligned for huge pages. If a foreign mapping is in the way, the heap skips it. If the system does not let HAKMEM choose
 * addresses, the heap grows at any address. */
/* Grows the arena by a share of its size. If the system refuses, grows the arena by less. Returns false if the system refuses even `slices`. */
bool hk_arena_grow(struct hk_arena *arena, size_t slices);
bool hk_arena_wants_huge_pages(const struct hk_arena *arena);

/* Makes a new span of a growing class resident by one system call, so that it costs no fault for each page. Does so only if the heap cannot grow on
 * huge pages. Also makes as many slices after the span resident as the window has. The window doubles with each call, because the heap takes these
 * slices before it calls again. It closes if a purge finds slices that no span has taken. */
void hk_chunk_prefault(struct hk_chunk *chunk, uintptr_t start, size_t slices);

/* Reads the system's settings of huge pages. Called when the heap is first large enough for huge pages, or before the program enters a sandbox. Any
 * thread may call this function, because threads that read at the same time read the same settings. */
void hk_thp_look(void);
/* Returns true if the system's mode permits huge pages, and if its huge pages have the size of a chunk. If the size of huge pages cannot be read,
 * assumes that a system with pages of 4 KiB has huge pages of this size, and that any other system does not. */
bool hk_thp_serves(void);

#endif
