#include "count/stats.h"

_Atomic uint64_t hk_global_counts[HK_GLOBAL_STATS];

#define INDEX_THREAD(name) true, HK_THREAD_##name
#define INDEX_GLOBAL(name) false, HK_GLOBAL_##name

const struct hk_stat_row hk_stat_rows[HK_STAT_ROWS] = {
#define HK_STAT(scope, name, unit, meaning) {#name, #unit, meaning, INDEX_##scope(name)},
#include "count/stats.def"
#undef HK_STAT
};
