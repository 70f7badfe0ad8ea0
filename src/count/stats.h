/* Stats: counts events on slow paths.
 * Owns       This file owns the global counters. The counters of a thread lie in its tcache, and this file only names them.
 * Threads    Any thread may add to a global counter. Only the thread itself adds to its counters. Others may read old values of these. */
#pragma once

#include "base/base.h"

/* Each statistic has the number of its row. The numbers of thread counters begin at 0, because the rows of threads come first. */
enum hk_stat {
#define HK_STAT(scope, name, unit, meaning) HK_STAT_##name, HK_##scope##_##name = HK_STAT_##name,
#include "count/stats.def"
    HK_STAT_ROWS,
    HK_THREAD_STATS = HK_GLOBAL_hit_window
};

struct hk_thread_counts {
    _Atomic uint64_t xvalue[HK_THREAD_STATS];
};

extern _Atomic uint64_t hk_global_counts[HK_STAT_ROWS];

/* Adds n to one of the calling thread's counters. The addition is not atomic, because no other thread writes the counter. */
#define HK_COUNT_THREAD(counts, name, n)                                                                               \
    hk_store((counts)->xvalue[HK_THREAD_##name], hk_load((counts)->xvalue[HK_THREAD_##name]) + (uint64_t)(n))
#define HK_COUNT(name, n) ((void)hk_add(hk_global_counts[HK_GLOBAL_##name], (uint64_t)(n)))

/* The texts are arrays, because the relocation of pointers at each start would take time and make a page of memory private. */
struct hk_stat_row {
    char name[24], unit[12], meaning[112];
};
extern const struct hk_stat_row hk_stat_rows[HK_STAT_ROWS];

/* Reuse: counts bytes of reused memory by how long they were idle. Counts both memory that stayed resident and purged memory. Any thread may count.
 * In these names, a span is an interval of idle time. Span b ends at HK_REUSE_SHORTEST << b milliseconds, but the last span has no end. */
enum { HK_REUSE_SPANS = 9, HK_REUSE_SHORTEST = 64 };

struct hk_reuse {
    /* The time of the last tick of any thread. Every slow call reads it. */
    _Atomic uint64_t xnow_ms HK_ALIGNED(HK_CACHE_LINE);
    _Atomic uint64_t xidled HK_ALIGNED(HK_CACHE_LINE); /* total bytes that have become idle */
    _Atomic uint64_t xback[HK_REUSE_SPANS];            /* idle bytes that were reused, by span */
};
extern struct hk_reuse hk_reuse;

HK_INLINE uint64_t hk_reuse_span_ms(unsigned span) { return (uint64_t)HK_REUSE_SHORTEST << span; }
HK_INLINE uint64_t hk_reuse_now(void) { return hk_load(hk_reuse.xnow_ms); }
/* Stores the time, but keeps a later time that is already stored, because the thread that read the clock first may store last. */
HK_INLINE void hk_reuse_saw(uint64_t now_ms)
{
    if (now_ms > hk_reuse_now())
        hk_store(hk_reuse.xnow_ms, now_ms);
}
HK_INLINE void hk_reuse_idled(size_t bytes) { hk_add(hk_reuse.xidled, bytes); }
void hk_reuse_back(uint64_t idle_ms, size_t bytes);
