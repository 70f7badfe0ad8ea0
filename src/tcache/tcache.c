#include "tcache/tcache.h"

#include "base/bits.h"
#include "decay/decay.h"
#include "policy/options.h"
#include "slab/slab_heap.h"
#include "slab/slab_heap_sweep.h"
#include "span/meta.h"
#include "tcache/bins.h"
#include "tcache/drain.h"
#include "tcache/pool.h"
#include "tcache/tick.h"

enum {
    NEW_FOR = 160, /* blocks */
    LOOKED_AT_A_BIRTH = 8, /* caches: more than one goes for each that comes, while one in eight is a dead thread's */
};

void hk_tcache_open_ring(struct hk_ring *ring)
{
    if (hk_options.trace_ring == 0)
        return;
    size_t size = hk_ring_size(hk_options.trace_ring);
    struct hk_event *events = hk_meta_alloc(size * sizeof *events);
    if (events != NULL)
        hk_ring_open(ring, events, size);
}

bool hk_tcache_begin(void)
{
    if (!hk_pool_waits() && hk_tcaches_alive() > 0)
        hk_tcaches_reap(LOOKED_AT_A_BIRTH);
    struct hk_tcache *cache = hk_pool_take();
    if (cache == NULL)
        return false;
    hk_owner_open(&cache->owner);
    hk_bins_reset(cache);
    cache->ticker = hk_decay_first_ticker();
    cache->reclaims_for_growth = false;
    cache->sampling = false;
    hk_outbox_open(&cache->hot.outbox, &cache->owner);
    cache->hot.key = hk_entry(cache->owner.id, 0);
    cache->until_tick = HK_TICK_NOW;
    cache->new_for = hk_pool_crowded() ? NEW_FOR : 0;
    cache->next_victim = HK_FIRST_OWNER;
    hk_store(cache->owner.xawake, UINT64_MAX);
    cache->alive = true;
    hk_liveness_take(&cache->liveness);
    cache->budget = hk_bins_budget();
    hk_self = &cache->hot;
    HK_COUNT(threads_started, 1);
    return true;
}

void *hk_tcache_alloc_aligned(struct hk_tcache *cache, unsigned class)
{
    void *block = NULL;
    if (hk_slab_heap_take_own(&cache->owner, class, &block + 1, 1) != 0)
        cache->hot.bins[class].served++;
    return block;
}

bool hk_tcache_resize(struct hk_tcache *cache, void *block, size_t size)
{
    uint32_t entry = hk_page_map_lookup((uintptr_t)block);
    struct hk_slab *slab = hk_slab_at((uintptr_t)block);
    if (cache == NULL || hk_entry_owner(entry) != cache->owner.id || slab->d.start != (uintptr_t)block)
        return false;
    bool resized = hk_slab_heap_resize(&cache->owner, slab, size);
    if (resized)
        HK_COUNT_THREAD(&cache->owner.counts, resized_in_place, 1);
    return resized;
}

size_t hk_tcache_trim(struct hk_tcache *cache)
{
    hk_drain_all(cache);
    hk_bins_empty(cache);
    hk_outbox_send_all(&cache->hot.outbox);
    return hk_slab_heap_trim(&cache->owner);
}
