/* Runs: which units of 64 KiB are free, and where the heap grows.
 *
 *   by_run[n] -> supers whose longest free run has n units      a request of n takes from the first list >= n: the tightest fit
 *   dense and sparse runs lie in supers of their own: what is filled to the last page may stand on huge pages, where blocks
 *   of which only the first bytes may ever be touched would make whole huge pages resident
 *   by_age    -> supers with free units that hold pages, the longest idle first: what purge takes
 *
 * Owns       the free, dirty and aged units of every super; the list of those that were unmapped.
 * Invariant  owned = in use + free; a unit in use belongs to exactly one slab; dirty says that a unit may hold pages.
 * Threads    any (one lock); memory is given back to the system outside it.
 * Never      hands out a unit that is being purged. */
#ifndef HK_RUNS_H
#define HK_RUNS_H

#include "base/base.h"

/* Called once, after the map's. */
void hk_runs_init(void);

/* Dense: all its pages will be touched. Unsure runs lie among the dense ones as long as they are few beside these. */
enum hk_use { HK_USE_DENSE, HK_USE_SPARSE, HK_USES, HK_USE_UNSURE = HK_USES };

/* An address aligned to a unit, or 0 if the system refuses; 1 <= units <= 32. */
uintptr_t hk_run_alloc(size_t units, enum hk_use use);
void hk_run_free(uintptr_t address, size_t units);
/* So many bytes of it were given back to the system before. */
void hk_run_free_hollow(uintptr_t address, size_t units, size_t hollow);
/* Takes the `more` units that follow a run of `units`; false if they are not free. */
bool hk_run_extend(uintptr_t address, size_t units, size_t more);

/* Gives back to the system what has been free for `delay_ms` at least (0: everything free). Returns bytes. */
size_t hk_runs_purge(uint64_t now_ms, uint64_t delay_ms);
/* Gives back what has been free longest, until it is `enough` bytes, of supers that have had free units for `delay_ms`. Returns
 * bytes. */
size_t hk_runs_purge_oldest(uint64_t now_ms, uint64_t delay_ms, size_t enough);
/* The same, of what is free now, whenever that was; waits for who is at it. */
size_t hk_runs_trim(uint64_t now_ms, size_t enough);
/* Unmaps the supers of which no unit is in use, and, where address space is scarce, all free units: those that may hold pages too, if
 * `warm_too`. Returns the bytes of these that may have held pages. */
size_t hk_runs_unmap(bool warm_too);
/* Bytes of units that may hold pages, in use or free. */
size_t hk_runs_warm(void);
/* How much may be put on huge pages beside what is dense, though perhaps little of it will be touched: bytes. */
size_t hk_runs_stake(void);

/* Gives back pages of a run that is in use; they are its user's. Its super leaves the huge page that it stands on. */
bool hk_run_purge(uintptr_t address, size_t size);
enum { HK_PART_WORTH_A_SPLIT = 4 }; /* of a huge page: a quarter */
/* Does it stand on a huge page? How many bytes of that super are free units? */
bool hk_runs_on_huge_page(uintptr_t address, size_t *free);

/* What a unit is. The words of the map must be there. */
enum hk_unit { HK_UNIT_FOREIGN, HK_UNIT_FREE, HK_UNIT_USED };
enum hk_unit hk_runs_unit(uintptr_t address);

struct hk_runs_totals {
    size_t mapped;     /* bytes that the heap has grown to */
    size_t free_dirty; /* free bytes that may hold pages */
    size_t free_clean; /* free bytes that hold none */
};
void hk_runs_total(struct hk_runs_totals *totals);

#endif
