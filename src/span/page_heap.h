/* Page heap: allocates spans, which are runs of 1 to 32 slices.
 *
 *   by_run[n]   lists the chunks whose longest free run has n slices. A request for n slices searches by_run[n], and then the lists of longer runs.
 *   by_age      lists the chunks with free dirty slices. The first has been dirty longest. Purges take the chunks in this order.
 *
 * Dense and sparse spans (enum hk_use) lie in separate chunks, because only dense chunks stand on huge pages. The program may touch only a few
 * pages of a sparse span. On a huge page, the first touch of the span would make the whole huge page resident.
 * Owns       This file owns the states of the slices of every chunk.
 * Invariant  An owned slice is in use or free. A slice in use belongs to exactly one span. A slice that is not marked dirty is not resident.
 * Threads    Any thread may call these functions. The page heap's lock is not held during a purge.
 * Never      The page heap never allocates a slice that is being purged. */
#pragma once

#include "os/os.h"
#include "span/page_map.h"

/* Initializes the page heap. Called once, after hk_page_map_init(). */
void hk_page_heap_init(void);
/* Returns the address of a span of 1 to 32 slices, or 0 if the system or the option `limit` refuses memory. Sets *blank to true if all bytes are
 * zero, because no block has used them since the system provided the pages. */
uintptr_t hk_span_alloc(size_t slices, enum hk_use use, bool *blank);
void hk_span_free(uintptr_t address, size_t slices);
/* Frees a span. `hollow` bytes of the span are already purged. */
void hk_span_free_hollow(uintptr_t address, size_t slices, size_t hollow);
/* Returns true if the span becomes inaccessible when it is freed. This is so if guard pages are on, and the span does not stand on a huge page. */
bool hk_span_is_guarded(uintptr_t address);
/* Extends a span by the `more` slices that follow it. Returns false if these slices are not free, or if the footprint must not grow. */
bool hk_span_extend(uintptr_t address, size_t slices, size_t more);
/* Returns the bytes of slices that may be resident. The slices are in use or free. */
size_t hk_page_heap_dirty(void);
/* Returns the bytes of free slices that may be resident. */
size_t hk_page_heap_idle(void);
/* Returns the limit on the bytes of HK_USE_UNSURE spans in dense chunks. Dense chunks may stand on huge pages. */
size_t hk_page_heap_stake(void);
/* Returns true if the address stands on a huge page. Sets *free to the bytes of free slices in the chunk of the address. */
bool hk_page_heap_on_huge_page(uintptr_t address, size_t *free);

/* The state of a slice that the page map covers. HK_SLICE_FREE_HUGE is a free slice on a huge page that also has slices in use. */
enum hk_slice_use { HK_SLICE_FOREIGN, HK_SLICE_FREE, HK_SLICE_FREE_HUGE, HK_SLICE_USED };
enum hk_slice_use hk_page_heap_slice(uintptr_t address);

struct hk_page_heap_totals {
    size_t mapped;     /* bytes of all slices, in use or free */
    size_t free_dirty; /* free bytes that may be resident */
    size_t free_clean; /* free bytes that are not resident */
};
struct hk_page_heap_totals hk_page_heap_total(void);

/* hk_page_heap_purge() and hk_page_heap_unmap() make slices unavailable for allocation before they purge or unmap these slices (purge.c). They
 * release purge_lock after each system call of a purge, or after each unmapped chunk, because fork waits for this lock. */
/* Purges free slices, until `enough` bytes are purged. Begins with the chunk that has been dirty longest. Skips chunks that have been dirty for less
 * than `delay_ms`. If `enough` is SIZE_MAX, also skips single slices that have been dirty for less than `delay_ms`. While another purge is running,
 * waits if `waits` is true, and stops otherwise. Returns the purged bytes. */
size_t hk_page_heap_purge(uint64_t now_ms, uint64_t delay_ms, size_t enough, bool waits);
/* Purges free slices of any age, until at most `keep` bytes are idle or `most` bytes are purged. Skips huge pages of which less than 1/4 can be
 * purged, and stops after 32 of them. Purges nothing if another purge is running at the begin of the call. Returns the purged bytes. */
size_t hk_page_heap_purge_excess(size_t keep, size_t most);
/* Unmaps the chunks that have no slice in use. If address space is scarce, also unmaps the free slices of all other chunks. Skips chunks with free
 * dirty slices if `dirty_too` is false. Returns the bytes of dirty slices that were unmapped. */
size_t hk_page_heap_unmap(bool dirty_too);
/* Leaves the free slices that may be resident out of core dumps. Returns their bytes. Called only just before the process ends. */
size_t hk_page_heap_leave_out_of_core(void);
/* Purges pages of a span in use, or withdrawn slices. First splits the huge page or folios that they do not fill. Returns false if the system refuses. */
bool hk_span_purge(uintptr_t address, size_t size);
/* A purge by age splits a huge page only if at least 1/4 of the huge page can be purged. */
enum { HK_PART_WORTH_A_SPLIT = 4 };
