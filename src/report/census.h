/* Census: where the memory is. A walk over slabs, caches and totals that takes no lock for long and changes nothing.
 * Invariant  while no other thread allocates: the parts sum to `mapped`, and each class's parts to its slabs' bytes.
 * Threads    any; a concurrent change is seen or not. */
#ifndef HK_CENSUS_H
#define HK_CENSUS_H

#include "base/base.h"
#include "count/stats.h"
#include "heaps/heaps.h"
#include "policy/classes.h"

struct hk_tallies {
#define HK_TALLY(name, kind, unit, meaning, high) uint64_t name;
#include "report/tallies.def"
#undef HK_TALLY
};

enum { HK_TALLIES = sizeof(struct hk_tallies) / sizeof(uint64_t) };

struct hk_tally_row {
    const char *name, *kind, *unit, *meaning;
};
extern const struct hk_tally_row hk_tally_rows[HK_TALLIES];

/* The value of a row. */
HK_INLINE uint64_t hk_tally(const struct hk_tallies *tallies, unsigned row) { return ((const uint64_t *)tallies)[row]; }

enum hk_part {
#define HK_PART(name, meaning, high) HK_PART_##name,
#include "report/parts.def"
#undef HK_PART
    HK_PARTS
};

struct hk_part_row {
    const char *name, *meaning;
};
extern const struct hk_part_row hk_part_rows[HK_PARTS];

enum { HK_TIER_LARGE = HK_TIER_MEDIUM + 1, HK_TIERS };

struct hk_census {
    struct hk_tallies classes[HK_CLASSES];
    struct hk_tallies tiers[HK_TIERS];
    struct hk_tallies sum;         /* over the classes */
    size_t parts[HK_PARTS];        /* bytes */
    size_t mapped;                 /* writable memory that HAKMEM has mapped: the sum of the parts */
    size_t idle_dirty, idle_clean; /* the part idle: slices with and without pages */
    size_t threads;                /* threads with a tcache */
    size_t heaps;                  /* heaps of the program's own that are open */
    size_t sampled_blocks;         /* live ones, which no class counts */
    uint64_t mallocs, frees;       /* calls served */
    uint64_t counts[HK_STAT_ROWS]; /* as hk_stat_rows */
};

/* False for the part of a kind of memory that the process has never had. */
HK_INLINE bool hk_part_shows(const struct hk_census *census, unsigned part)
{
    return part != HK_PART_heaps || census->heaps != 0;
}

void hk_census_take(struct hk_census *census);

const char *hk_census_tier_name(unsigned tier);

/* The threads whose bins and depots hold the most bytes, by their numbers in the system. Threads are numbered only if a report is written while
 * the program runs. */
enum { HK_REPORT_HOLDERS = 64 };

struct hk_holder {
    int thread;
    uint64_t served; /* blocks that its bins have served, also to threads that had them before */
    size_t in_bins, in_depots;
};

/* Fills in the rows, the largest first. Returns their number. */
unsigned hk_holders_take(struct hk_holder holders[HK_REPORT_HOLDERS]);

/* The program's heaps that have the most physical memory. Takes the lock of each heap for a moment. */
enum { HK_REPORT_HEAPS = 32 };

/* Fills in the rows, the largest first. Returns their number. */
unsigned hk_heap_lines_take(struct hk_heap_figures lines[HK_REPORT_HEAPS]);

#endif
