/* RSS statistics: how much of each part of HAKMEM's memory is resident, and how much of the rest of the process.
 *
 *   /proc/self/smaps -> a mapping without HAKMEM's pages: rest_of_process, by the kernel's count
 *                    -> a mapping with such pages: page by page; HAKMEM's to the parts, the others to rest_of_process
 *
 * Live samples: unbiased estimates, by stack, of the bytes that the sampled live blocks stand for, and of the free bytes that they pin. A page of a
 * slab that has taken and free blocks cannot be purged, and each taken block pins a share of the free bytes. A sample adds its share times its
 * weight.
 *
 * Invariant  the rows of the classes, of idle memory and of the rest sum to their parts. While nothing changes, and if the system reports resident
 *            pages, the parts and rest_of_process sum to `total`.
 * Threads    any, no lock. A mapping that disappears during the walk counts as 0. A block that is freed during the walk counts or not. Nothing is
 *            allocated from the heap. */
#ifndef HK_RSS_STATS_H
#define HK_RSS_STATS_H

#include "report/heap_stats.h"

/* The sums of the walk. All fields have one type, because they are scaled and added as an array. */
struct hk_resident_sums {
    size_t parts[HK_PARTS];
    size_t taken[HK_CLASSES];  /* bytes of blocks that are not free in their slabs */
    size_t pinned[HK_CLASSES]; /* bytes of free blocks on pages with taken blocks, which no purge returns */
    size_t loose[HK_CLASSES];  /* bytes of free blocks on other pages */
    size_t tails[HK_CLASSES];
    size_t areas;            /* bytes of metadata */
    size_t idle_huge;        /* bytes of free slices on huge pages that have slices in use */
    size_t rest_files, rest; /* bytes of mapped files, and of all other memory outside HAKMEM */
};

struct hk_rss_stats {
    struct hk_resident_sums all, here; /* in total, and of one mapping; too large for the stack */
    struct hk_class_stats
        classes[HK_CLASSES]; /* resident bytes: live, rounding, in_bins, remote, free_in_slabs, tails */
    size_t rest_of_process;  /* bytes of code, stacks, other mappings */
    size_t total;            /* sum of the kernel's counts of the mappings; 0: unknown */
};

/* Takes the statistics. `heap_stats` tells how many of the taken blocks are live, and how many are in bins. */
void hk_rss_stats_take(struct hk_rss_stats *rss_stats, const struct hk_heap_stats *heap_stats);

enum { HK_REPORT_STACKS = 200 };

struct hk_live_samples_sums {
    uint64_t blocks, bytes, pinned;
};

struct hk_live_samples_line {
    const struct hk_site *site;
    struct hk_live_samples_sums sums;
};

struct hk_live_samples {
    uint64_t mean;                                        /* bytes between two samples; 0: sampling is off */
    struct hk_live_samples_sums all;                      /* sums of all stacks */
    struct hk_live_samples_line stacks[HK_REPORT_STACKS]; /* the stacks with the most bytes, live and pinned */
    unsigned shown;
};

void hk_live_samples_take(struct hk_live_samples *live_samples);

#endif
