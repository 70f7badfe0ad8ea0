/* Heap statistics: finds where the memory of the heap is, by a walk that holds no lock for long and changes nothing.
 * Invariant  If no other thread allocates, the parts sum to `mapped`, and the figures of a class sum to the bytes of its slabs.
 * Threads    Any thread may call the functions. If another thread changes the heap during the walk, the figures may or may not contain the change. */
#pragma once

#include "count/stats.h"
#include "heaps/heaps.h"

struct hk_class_stats {
#define HK_CLASS_STAT(name, kind, unit, meaning, high) uint64_t name;
#include "report/class_stats.def"
};

enum { HK_CLASS_STATS = sizeof(struct hk_class_stats) / sizeof(uint64_t) };

/* Holds a row of hk_class_stat_rows or hk_heap_figure_rows. Rows have no pointers, so that processes share their pages. */
struct hk_row {
    char name[16], meaning[104], kind[8], unit[8];
    uint16_t width, offset; /* width of the column in the text, which is 0 for classes, and offset of the field */
};
extern const struct hk_row hk_class_stat_rows[HK_CLASS_STATS];
/* Returns the figure of a row. `figures` is a struct hk_class_stats or hk_heap_figures. */
HK_INLINE uint64_t hk_row_value(const struct hk_row *row, const void *figures)
{
    return *(const uint64_t *)(const void *)((const char *)figures + row->offset);
}

enum hk_part {
#define HK_PART(name, meaning, high) HK_PART_##name,
#include "report/parts.def"
    HK_PARTS
};

extern const struct hk_part_row {
    char name[16], meaning[160];
} hk_part_rows[HK_PARTS];

struct hk_thread_line {
    int thread; /* the system's number of the thread; threads whose number is not stored have no line */
    /* The number of blocks that the bins have served to this thread and to earlier threads of the tcache. It does not count hits. */
    uint64_t served;
    size_t in_bins, in_depots; /* bytes in bins and depots, and the part of them that is in depots */
};

enum { HK_REPORT_THREADS = 64, HK_REPORT_HEAPS = 32 };

struct hk_heap_stats {
    struct hk_class_stats classes[HK_CLASSES];
    struct hk_class_stats tiers[HK_TIERS];
    struct hk_class_stats sum;     /* sums over the classes */
    size_t parts[HK_PARTS];        /* bytes */
    size_t mapped;                 /* writable bytes that HAKMEM has mapped; the sum of the parts */
    size_t idle_dirty, idle_clean; /* bytes of dirty and of other free slices; the sum is the part `idle` */
    size_t threads;                /* threads with a tcache */
    size_t heaps;                  /* open user heaps */
    size_t other_blocks; /* live blocks that no class counts: sampled ones, and those in slabs of user heaps */
    /* The numbers of blocks that were allocated and freed since the start. If `counted` is false, there may have been more. */
    uint64_t mallocs, frees;
    bool counted; /* true if no hit was served, so that `mallocs`, `frees` and each `served` are exact */
    uint64_t counts[HK_STAT_ROWS];                         /* the counters, in the order of hk_stat_rows */
    struct hk_thread_line thread_lines[HK_REPORT_THREADS]; /* the threads with the most bytes in bins and depots */
    struct hk_heap_figures heap_lines[HK_REPORT_HEAPS];    /* the user heaps with the most physical memory */
    unsigned thread_lines_shown, heap_lines_shown;
};

enum hk_heap_figure {
#define HK_HEAP_FIGURE(name, field, kind, unit, width, meaning) HK_HEAP_FIGURE_##name,
#include "report/heap_figures.def"
    HK_HEAP_FIGURES
};

extern const struct hk_row hk_heap_figure_rows[HK_HEAP_FIGURES];

/* Returns false if the process has never used the class. Reports leave out such classes. */
HK_INLINE bool hk_class_shows(const struct hk_heap_stats *heap_stats, unsigned class)
{
    return heap_stats->classes[class].served != 0 || heap_stats->classes[class].slabs != 0;
}

/* Returns false for the part `heaps` if the process has no user heap. Reports then leave out this part. */
HK_INLINE bool hk_part_shows(const struct hk_heap_stats *heap_stats, unsigned part)
{
    return part != HK_PART_heaps || heap_stats->heaps != 0;
}

/* Fills in the statistics. Takes the lock of each user heap for a moment. */
void hk_heap_stats_take(struct hk_heap_stats *heap_stats);

void hk_parts_add_class(size_t parts[HK_PARTS], const struct hk_class_stats *class_stats);

/* RSS statistics: finds how much of each part of HAKMEM's memory is resident, and how much of the rest of the process.
 * The walk reads the kernel's figure of the resident bytes of each mapping from /proc/self/smaps. If HAKMEM has no page in a mapping, the whole
 * figure counts for rest_of_process. Otherwise HAKMEM's pages count for the parts, and all other pages of the mapping for rest_of_process.
 *
 * Live samples: estimates the bytes of the live blocks of each stack, and the free bytes that these blocks pin. A page of a slab cannot be purged
 * while it has taken blocks, so each taken block pins a share of the page's free bytes. A sample stands for several blocks, according to its weight.
 * Invariant  The figures of the classes and of idle memory sum to their parts. If nothing changes and the system tells which pages are resident, the
 *            parts and rest_of_process sum to `total`.
 * Threads    Any thread may call the functions. They take no lock, and allocate nothing from the heap. A mapping that disappears during the walk
 *            counts as 0. A block that is freed during the walk may or may not count. */

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
