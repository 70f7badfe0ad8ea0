/* Heap statistics: finds where the memory of the heap is, by a walk that holds no lock for long and changes nothing.
 * Invariant  If no other thread allocates, the parts sum to `mapped`, and the figures of a class sum to the bytes of its slabs.
 * Threads    Any thread may call the functions. If another thread changes the heap during the walk, the figures may or may not contain the change. */
#ifndef HK_HEAP_STATS_H
#define HK_HEAP_STATS_H

#include "count/stats.h"
#include "heaps/heaps.h"

struct hk_class_stats {
#define HK_CLASS_STAT(name, kind, unit, meaning, high) uint64_t name;
#include "report/class_stats.def"
};

enum { HK_CLASS_STATS = sizeof(struct hk_class_stats) / sizeof(uint64_t) };

/* Holds a row of hk_class_stat_rows or hk_heap_figure_rows. The loader writes addresses into the rows, so each process has a copy of their page. */
struct hk_row {
    const char *name, *meaning, *kind, *unit;
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
    const char *name, *meaning;
} hk_part_rows[HK_PARTS];

struct hk_thread_line {
    int thread;      /* the system's number of the thread; threads whose number is not stored have no line */
    uint64_t served; /* blocks that the bins have served to this thread and to earlier threads of the tcache */
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
    size_t sampled_blocks;         /* live sampled blocks, which no class counts */
    uint64_t mallocs, frees;       /* numbers of blocks that were allocated and freed since the start */
    uint64_t counts[HK_STAT_ROWS]; /* the counters, in the order of hk_stat_rows */
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

#endif
