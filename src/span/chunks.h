/* Chunks: holds the state of the page heap, and moves slices of a chunk between the states below. A slice is dirty if its pages may be resident.
 *
 *   mapped -> free, clean --use--> in use, dirty --release--> free, dirty --purge--> free, purged --use--> in use, dirty
 *
 * Owns       This file owns the counts of slices, and the lists of chunks (by longest free run, by age, with unmapped slices).
 * Invariant  A chunk with free slices is on the list for its longest free run. A chunk with dirty free slices is on by_age.
 * Threads    The caller holds the page heap's lock. */
#pragma once

#include "base/lock.h"
#include "span/page_map.h"

struct hk_arena {
    uint64_t listed;                            /* bit n is set if by_run[n] has chunks */
    struct hk_list by_run[HK_CHUNK_SLICES + 1]; /* by_run[n]: chunks whose longest free run has n slices */
    size_t mapped;                              /* bytes of the arena's slices, free or in use */
};

extern struct hk_page_heap {
    struct hk_lock lock;
    struct hk_lock purge_lock; /* held while slices are withdrawn to purge, unmap or prefault them; fork takes it too */
    struct hk_arena arenas[HK_USES];
    struct hk_list by_age; /* chunks with free dirty slices; the first is the one that has been dirty longest */
    struct hk_list holes;  /* chunks with unmapped slices, which growth maps again before it uses new addresses */
    size_t free_slices;
    _Atomic size_t xidle;   /* number of free slices that are dirty */
    uintptr_t end;          /* address at which the heap grows next in the window; 0 if the system chooses addresses */
    size_t staked_slices;   /* number of slices of HK_USE_UNSURE spans in HK_USE_DENSE chunks; stake() limits it */
    _Atomic size_t xhollow; /* number of purged pages in free slices that are still marked dirty */
    uint32_t ahead;         /* most slices that the next prefault of a span makes resident behind the span */
    _Atomic bool xprefault_refused;
} hk_page_heap;

extern bool hk_page_heap_guarded; /* if true, free spans and ends of slabs are inaccessible; set when HAKMEM starts */

HK_INLINE uintptr_t hk_chunk_address(const struct hk_chunk *chunk, unsigned slice)
{
    return chunk->start + ((uintptr_t)slice << HK_SLICE_SHIFT);
}
HK_INLINE unsigned hk_chunk_slice(uintptr_t address) { return (unsigned)(address >> HK_SLICE_SHIFT) % HK_CHUNK_SLICES; }
/* Returns the free slices that may be resident. A purge can return their pages to the system. */
HK_INLINE uint32_t hk_chunk_idle(const struct hk_chunk *chunk) { return chunk->free & chunk->dirty; }

/* unlist takes the chunk off its list by_run. relist computes the longest free run, and puts the chunk on the list for this length. */
void hk_chunk_unlist(struct hk_chunk *chunk);
void hk_chunk_relist(struct hk_chunk *chunk);
/* Returns a chunk for which suits(chunk, how) is true, or NULL. Looks at the lists by_run from number `from` to number `to`, upwards or downwards. */
struct hk_chunk *hk_chunk_find(size_t from, size_t to, bool (*suits)(const struct hk_chunk *, size_t), size_t how);
/* hk_chunk_withdraw() makes free slices unavailable for allocation, for example during a purge. hk_chunk_use() withdraws slices for a span, and marks
 * them as dirty. hk_chunk_release() makes slices free again. */
HK_INLINE void hk_page_heap_count_idle(int slices)
{
    hk_store(hk_page_heap.xidle, hk_load(hk_page_heap.xidle) + (size_t)slices);
}
HK_INLINE void hk_chunk_withdraw(struct hk_chunk *chunk, uint32_t slices)
{
    hk_page_heap.free_slices -= hk_popcount64(slices);
    hk_page_heap_count_idle(-(int)hk_popcount64(slices & chunk->dirty));
    chunk->free &= ~slices;
    chunk->aged &= ~slices;
    hk_chunk_relist(chunk);
}
void hk_chunk_use(struct hk_chunk *chunk, uint32_t slices);
void hk_chunk_release(struct hk_chunk *chunk, uint32_t slices);
/* Stores how many pages of each of these slices were purged before the slice was freed. */
void hk_chunk_set_hollow(struct hk_chunk *chunk, uint32_t slices, unsigned pages);
void hk_page_heap_count_dirty(int slices);
/* Notes that the chunk is not on a huge page, and asks the kernel to use small pages for the chunk. */
void hk_chunk_leave_huge_page(struct hk_chunk *chunk);

/* Grows the arena by a share of its size, or by less if the system refuses. Returns false if the system refuses even the `slices` that are needed.
 * Asks for huge pages if the policy wants them for a heap of this size, and if the system's huge pages have the size of a chunk. Otherwise, asks for
 * folios of 64 KiB in a dense arena, and for small pages in a sparse one. In the window (page_map.h), each mapping begins where the previous one ends,
 * so that the kernel merges the two. A mapping of whole chunks is aligned to a chunk, because huge pages need this alignment. If another mapping is in
 * the way, the heap continues behind it. If the system does not let HAKMEM choose addresses, the system chooses them. */
bool hk_arena_grow(struct hk_arena *arena, size_t slices);
bool hk_arena_wants_huge_pages(const struct hk_arena *arena);

/* Makes a new span of a growing class resident by one system call, to save a fault for each page. Does so only if the footprint is at least 4 MiB,
 * and if the heap cannot grow on huge pages. Also makes up to hk_page_heap.ahead unused slices behind the span resident, because the heap takes them
 * next. Each call doubles `ahead`, from 1 up to 8. If the system refuses, or a purge takes such slices before a span uses them, `ahead` becomes 0. */
void hk_chunk_prefault(struct hk_chunk *chunk, uintptr_t start, size_t slices);

/* Reads the settings of transparent huge pages (THP). Called when first needed, and before the program restricts its system calls. Needs no lock. */
void hk_thp_look(void);
/* hk_thp_serves() returns true if the settings permit huge pages of a chunk's size. Huge pages have this size if a system page has 4 KiB.
 * hk_thp_gives_folios() returns true if they permit folios of a slice's size, which take one page fault each. */
bool hk_thp_serves(void);
bool hk_thp_gives_folios(void);
