#include "tiers/giveback.h"

#include "base/bits.h"
#include "os/os.h"
#include "policy/options.h"
#include "span/runs.h"
#include "tiers/bigcache.h"

enum { TICK_MS = 150 };

static _Atomic uint64_t xlast_pass;

static void pass_if_due(void)
{
    uint64_t now = hk_os.clock_ms();
    uint64_t last = hk_load(xlast_pass);
    if (now - last < hk_min(TICK_MS, hk_options.purge_delay))
        return;
    /* Who loses the race leaves the pass to who won it. */
    if (!atomic_compare_exchange_strong_explicit(&xlast_pass, &last, now, memory_order_relaxed, memory_order_relaxed))
        return;
    hk_runs_purge(now, hk_options.purge_delay);
    hk_big_purge(now, hk_options.purge_delay);
}

bool hk_giveback_tick(uint64_t *seen)
{
    pass_if_due();
    uint64_t last = hk_load(xlast_pass);
    bool passed = last != *seen;
    *seen = last;
    return passed;
}

size_t hk_giveback_all(void) { return hk_runs_purge(0, 0) + hk_big_purge(0, 0); }
