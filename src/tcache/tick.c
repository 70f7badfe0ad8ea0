/* Counts slow calls, and does the periodic work of a thread. */
#include "tcache/tick.h"

#include "base/bits.h"
#include "decay/decay.h"
#include "policy/options.h"
#include "slab/slab_heap_sweep.h"
#include "span/page_heap.h"
#include "tcache/bins.h"
#include "tcache/depot.h"
#include "tcache/drain.h"
#include "tcache/ending.h"
#include "tcache/pool.h"

enum {
    WORK_FOR_GROWTH = 32 * HK_WORK_OF_CALL, /* about 50 microseconds; the slow calls of a tick touch about 1 MiB */
    REAP_PER_EPOCH = 64,
    LARGEST_PICKED = 8192, /* a slot of sampled_slots.h holds it */
};

static void on_epoch(struct hk_tcache *cache)
{
    hk_pool_epoch(cache->ticker.epoch_seen);
    hk_depot_age(cache);
    hk_bins_flush_idle(cache);
    hk_outbox_send_all(&cache->outbox);
    hk_outbox_drop_idle(&cache->outbox);
    if (cache->shelf.size != 0)
        hk_heap_shelf_age(&cache->shelf);
    hk_slab_heap_sweep_begin(&cache->owner);
    hk_tcaches_reap(REAP_PER_EPOCH);
}

int hk_tick_weight(unsigned class) { return HK_TICK_SLOW_CALL + (int)(hk_classes[class].slab_bytes / (2 * HK_SLICE)); }

static HK_NOINLINE void tick(struct hk_tcache *cache)
{
    cache->until_tick = HK_TICK_NOW;
    hk_drain_some(cache);
    bool was_idle = hk_decay_read_clock(&cache->ticker);
    hk_store(cache->owner.xawake, cache->ticker.now);
    cache->budget = hk_bins_budget();
    if (cache->outbox.table != NULL)
        hk_outbox_tune(&cache->outbox, hk_page_heap_dirty());
    if (was_idle)
        hk_bins_empty(cache);
    if (hk_decay_tick(&cache->ticker))
        on_epoch(cache);
    if (hk_decay_growth(&cache->ticker)) {
        hk_slab_heap_sweep_for_growth(&cache->owner);
        cache->reclaims_for_growth = true;
    }
    struct hk_sweep share = hk_decay_share(&cache->ticker);
    if (cache->reclaims_for_growth)
        share.work += WORK_FOR_GROWTH;
    if (share.work <= 0 || !hk_slab_heap_sweep(&cache->owner, &share) || !cache->reclaims_for_growth)
        return;
    cache->reclaims_for_growth = false;
    hk_decay_swept(&cache->ticker);
}

HK_NOINLINE void hk_tick(struct hk_tcache *cache, int weight)
{
    cache->until_tick -= weight;
    if (HK_UNLIKELY(cache->until_tick <= 0))
        tick(cache);
}

/* The miss at a tick stands for all since the last: it counts the bytes that its bin has served since it last missed, as often as
 * there were misses of that weight. */
static HK_COLD bool countdown_picks(struct hk_tcache *cache, unsigned class)
{
    const struct hk_class *row = &hk_classes[class];
    size_t served = (uint32_t)cache->hot.bins[class].served - cache->served_at_turn[class] + (size_t)1;
    size_t bytes = served * row->size * (size_t)(HK_TICK_NOW / hk_tick_weight(class));
    return row->size <= LARGEST_PICKED && hk_countdown_runs_out(&cache->to_guarded, bytes) &&
           hk_countdown_picks(&cache->to_guarded, hk_options.guard_sample);
}

bool hk_tick_picks(struct hk_tcache *cache, unsigned class)
{
    bool due = cache->until_tick <= hk_tick_weight(class) && hk_bin_items(&cache->hot.bins[class]) == 0;
    if (HK_LIKELY(!due) || !countdown_picks(cache, class))
        return false;
    tick(cache);
    return true;
}

void hk_tcache_grew(struct hk_tcache *cache, size_t bytes)
{
    hk_tick(cache, bytes >= HK_MEDIUM_MAX ? HK_TICK_NOW : HK_TICK_SLOW_CALL);
}
