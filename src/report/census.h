/* Census: where the memory is. A walk over slabs, caches and totals that takes no lock for long and changes nothing.
 * Invariant  while no other thread allocates: the parts sum to `mapped`, and each class's parts to its slabs' bytes.
 * Threads    any; what other threads change meanwhile is seen before or after. */
#ifndef HK_CENSUS_H
#define HK_CENSUS_H

#include "count/stats.h"
#include "policy/classes.h"

struct hk_class_census {
    size_t slabs;
    uint64_t served;     /* blocks handed out, ever */
    size_t live_blocks;  /* with the user */
    size_t live;         /* bytes, as all below */
    size_t in_bins;      /* ready in thread caches */
    size_t remote;       /* freed by another thread, on their way back */
    size_t free_in_slabs;
    size_t tails;        /* of slabs, too short for a block */
};

struct hk_census {
    struct hk_class_census classes[HK_CLASSES];
    struct hk_class_census sum;
    size_t big_blocks, big_live, big_cached;
    size_t idle_dirty, idle_clean; /* free units, with and without pages */
    size_t metadata;               /* HAKMEM's own words, in use */
    size_t metadata_spare;         /* committed for them, not used yet */
    size_t mapped;                 /* all that HAKMEM has mapped to write to */
    size_t threads;                /* with a cache */
    uint64_t mallocs, frees;       /* calls served */
    uint64_t counts[HK_STAT_ROWS]; /* as hk_stat_rows */
};

void hk_census_take(struct hk_census *census);

/* The parts that sum to `mapped`. */
struct hk_part {
    const char *name, *meaning;
    size_t bytes;
};
enum { HK_PARTS = 10 };
void hk_census_parts(const struct hk_census *census, struct hk_part parts[HK_PARTS]);

#endif
