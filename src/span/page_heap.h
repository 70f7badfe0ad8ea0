/* Runs: which slices of 64 KiB are free, and where the heap grows.
 *
 *   by_run[n] -> chunks whose longest free run has n units      a request of n takes from the first list >= n: the tightest fit
 *   dense and sparse runs lie in chunks of their own: what is filled to the last page may stand on huge pages, where blocks
 *   of which only the first bytes may ever be touched would make whole huge pages resident
 *   by_age    -> chunks with free slices that hold pages, the longest idle first: what purge takes
 *
 * Owns       the free, dirty and aged units of every chunk; the list of those that were unmapped.
 * Invariant  owned = in use + free; a unit in use belongs to exactly one slab; dirty says that a unit may hold pages.
 * Threads    any (one lock); memory is given back to the system outside it.
 * Never      hands out a unit that is being purged. */
#ifndef HK_PAGE_HEAP_H
#define HK_PAGE_HEAP_H

#include "span/page_map.h"

/* Called once, after the map's. */
void hk_page_heap_init(void);

/* An address aligned to a unit, or 0 if the system refuses; 1 <= units <= 32. */
uintptr_t hk_span_alloc(size_t slices, enum hk_use use);
void hk_span_free(uintptr_t address, size_t slices);
/* So many bytes of it were given back to the system before. */
void hk_span_free_hollow(uintptr_t address, size_t slices, size_t hollow);
/* Takes the `more` units that follow a run of `units`; false if they are not free. */
bool hk_span_extend(uintptr_t address, size_t slices, size_t more);

/* Bytes of units that may hold pages, in use or free. */
size_t hk_page_heap_dirty(void);
/* How much may be put on huge pages beside what is dense, though perhaps little of it will be touched: bytes. */
size_t hk_page_heap_stake(void);

/* Does it stand on a huge page? How many bytes of that chunk are free slices? */
bool hk_page_heap_on_huge_page(uintptr_t address, size_t *free);

/* What a unit is. The words of the map must be there. */
enum hk_slice_use { HK_SLICE_FOREIGN, HK_SLICE_FREE, HK_SLICE_USED };
enum hk_slice_use hk_page_heap_slice(uintptr_t address);

struct hk_page_heap_totals {
    size_t mapped;     /* bytes that the heap has grown to */
    size_t free_dirty; /* free bytes that may hold pages */
    size_t free_clean; /* free bytes that hold none */
};
void hk_page_heap_total(struct hk_page_heap_totals *totals);

#endif
