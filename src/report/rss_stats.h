/* RSS statistics: finds how much of each part of HAKMEM's memory is resident, and how much of the rest of the process.
 *
 * The walk reads the kernel's figure of the resident bytes of each mapping from /proc/self/smaps. If HAKMEM has no page in a mapping, the whole
 * figure counts for rest_of_process. Otherwise HAKMEM's pages count for the parts, and all other pages of the mapping for rest_of_process.
 *
 * Live samples: estimates the bytes of the live blocks of each stack, and the free bytes that these blocks pin. A page of a slab cannot be purged
 * while it has taken blocks, so each taken block pins a share of the page's free bytes. A sample stands for several blocks, according to its weight.
 *
 * Invariant  The figures of the classes and of idle memory sum to their parts. If nothing changes and the system tells which pages are resident, the
 *            parts and rest_of_process sum to `total`.
 * Threads    Any thread may call the functions. They take no lock, and allocate nothing from the heap. A mapping that disappears during the walk
 *            counts as 0. A block that is freed during the walk may or may not count. */
#ifndef HK_RSS_STATS_H
#define HK_RSS_STATS_H

#include "report/heap_stats.h"

/* Holds the sums of the walk. All fields have the same type, because the code also treats the struct as an array. */
struct hk_resident_sums {
    size_t parts[HK_PARTS];
    size_t taken[HK_CLASSES];  /* bytes of blocks that are not free in their slabs */
    size_t pinned[HK_CLASSES]; /* bytes of free blocks on pages that cannot be purged because of taken blocks */
    size_t loose[HK_CLASSES];  /* bytes of free blocks on pages that can be purged */
    size_t tails[HK_CLASSES];
    size_t areas;            /* bytes of metadata */
    size_t idle_huge;        /* bytes of free slices whose huge page also has slices in use */
    size_t rest_files, rest; /* bytes of mapped files, and of all other memory outside HAKMEM */
};

struct hk_rss_stats {
    struct hk_resident_sums all, here; /* sums of all mappings, and of the current one; too large for the stack */
    struct hk_class_stats classes[HK_CLASSES]; /* bytes of live, rounding, in_bins, remote, free_in_slabs and tails */
    size_t rest_of_process;                    /* bytes of code, stacks, other mappings */
    size_t total;                              /* sum of the kernel's figures for all mappings; 0 if unknown */
};

/* Takes the RSS statistics. `heap_stats` tells how many of the taken blocks are live, and how many are in bins. */
void hk_rss_stats_take(struct hk_rss_stats *rss_stats, const struct hk_heap_stats *heap_stats);

enum { HK_REPORT_STACKS = 200 };

struct hk_live_samples_line {
    const struct hk_site *site;
    uint64_t blocks, bytes, pinned, rank; /* `rank` is the sum of bytes and pinned */
};

struct hk_live_samples {
    uint64_t mean;                                        /* bytes between two samples; 0: sampling is off */
    struct hk_live_samples_line all;                      /* sums of all stacks, without a site */
    struct hk_live_samples_line stacks[HK_REPORT_STACKS]; /* the stacks with the most live and pinned bytes */
    unsigned shown;
};

void hk_live_samples_take(struct hk_live_samples *live_samples);

#endif
