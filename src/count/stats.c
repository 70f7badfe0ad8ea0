/* Defines the global counters, and counts reused bytes by how long they were idle. */
#include "count/stats.h"

_Atomic uint64_t hk_global_counts[HK_STAT_ROWS];

#define FITS_THREAD(number) ((number) < HK_THREAD_STATS)
#define FITS_GLOBAL(number) ((number) >= HK_THREAD_STATS)
#define HK_STAT(scope, name, unit, meaning)                                                                            \
    _Static_assert(FITS_##scope(HK_STAT_##name), "the rows of threads come first");
#include "count/stats.def"

const struct hk_stat_row hk_stat_rows[HK_STAT_ROWS] = {
#define HK_STAT(scope, name, unit, meaning) {#name, #unit, meaning},
#include "count/stats.def"
};

struct hk_reuse hk_reuse;

void hk_reuse_back(uint64_t idle_ms, size_t bytes)
{
    unsigned span = 0;
    while (span < HK_REUSE_SPANS - 1 && idle_ms > hk_reuse_span_ms(span))
        span++;
    hk_add(hk_reuse.xback[span], bytes);
}
