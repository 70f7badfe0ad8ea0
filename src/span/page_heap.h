/* Page heap: allocates spans, which are runs of 1 to 32 slices.
 *
 *   by_run[n] -> chunks whose longest free run has n slices; a request of n takes from the first list >= n, which is the tightest fit
 *   by_age    -> chunks with free dirty slices, the longest dirty first; purges take the chunks in this order
 *   Dense and sparse spans lie in separate chunks, because chunks of dense spans may stand on huge pages. The program may touch only a few
 *   pages of a sparse span. On a huge page, the first touch of the span would make the whole huge page resident.
 *
 * Owns       This file owns the free, dirty and aged slices of every chunk, and the list of chunks with unmapped slices.
 * Invariant  An owned slice is in use or free. A slice in use belongs to exactly one span. A slice that is not marked dirty is not resident.
 * Threads    Any thread may call these functions. The page heap's lock is not held during a purge.
 * Never      allocates a slice that is being purged. */
#ifndef HK_PAGE_HEAP_H
#define HK_PAGE_HEAP_H

#include "os/os.h"
#include "span/page_map.h"

/* Initializes the page heap. Called once, after hk_page_map_init(). */
void hk_page_heap_init(void);
/* Returns the address of a span of 1 to 32 slices, or 0 if the system or the option `limit` refuses memory. Sets *blank to true if all bytes are zero,
 * because no block used them since the system provided the pages. */
uintptr_t hk_span_alloc(size_t slices, enum hk_use use, bool *blank);
void hk_span_free(uintptr_t address, size_t slices);
/* Frees a span of which `hollow` bytes are already purged. */
void hk_span_free_hollow(uintptr_t address, size_t slices, size_t hollow);
/* Returns true if a span faults while it is free, because guard pages are in force and the span stands on no huge page. */
bool hk_span_is_guarded(uintptr_t address);
/* Extends a span by the `more` slices that follow it. Returns false if these slices are not free, or if the footprint must not grow. */
bool hk_span_extend(uintptr_t address, size_t slices, size_t more);
/* Returns the bytes of slices that may be resident, in use or free. */
size_t hk_page_heap_dirty(void);
/* Returns how many bytes may stand on huge pages although the program may touch little of them. */
size_t hk_page_heap_stake(void);
/* Returns true if the address stands on a huge page. Sets *free to the bytes of free slices in the chunk of the address. */
bool hk_page_heap_on_huge_page(uintptr_t address, size_t *free);

/* Lists the states of a slice that hk_page_heap_slice() returns. The page map must cover the slice. */
enum hk_slice_use {
    HK_SLICE_FOREIGN,
    HK_SLICE_FREE,
    HK_SLICE_FREE_HUGE, /* free, and on a huge page that has slices in use */
    HK_SLICE_USED,
};
enum hk_slice_use hk_page_heap_slice(uintptr_t address);

struct hk_page_heap_totals {
    size_t mapped;     /* bytes of all slices */
    size_t free_dirty; /* free bytes that may be resident */
    size_t free_clean; /* free bytes that are not resident */
};
void hk_page_heap_total(struct hk_page_heap_totals *totals);

/* The next functions (purge.c) purge or unmap free slices. A slice cannot be allocated during that time. The functions hold purge_lock only for one
 * range of slices or one chunk at a time, because fork waits for this lock. */
/* Purges chunks whose free slices have been dirty for `delay_ms`, the longest dirty first, until `enough` bytes are purged. If `enough` is SIZE_MAX,
 * purges only slices that each have been dirty for the delay. Returns the purged bytes. If another purge is under way, waits for it if `waits`, and
 * stops otherwise. */
size_t hk_page_heap_purge(uint64_t now_ms, uint64_t delay_ms, size_t enough, bool waits);
/* Unmaps the chunks without a slice in use. If address space is scarce, unmaps all other free slices too. Skips chunks with free dirty slices if
 * `dirty_too` is false. Returns the bytes of dirty slices that were unmapped. */
size_t hk_page_heap_unmap(bool dirty_too);
/* Purges pages of a span that the caller uses. If the span's chunk stands on a huge page, first takes the chunk off that page. Returns false if the
 * system refuses. */
bool hk_span_purge(uintptr_t address, size_t size);
/* A huge page is split for a purge only if the purge covers at least 1/4 of it. */
enum { HK_PART_WORTH_A_SPLIT = 4 };

#endif
