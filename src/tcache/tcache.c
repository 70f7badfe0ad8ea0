/* Begins a thread's cache, resizes blocks of the thread's slabs in place, and trims the cache. */
#include "tcache/tcache.h"
#include "slab/slab_heap.h"

enum {
    NEW_THREAD_BLOCKS = 160, /* blocks that a new thread takes from the commons */
    REAP_PER_BEGIN = 8,      /* a new thread checks up to so many caches, to find threads that were killed */
};

/* Initializes a cache whose last thread, if there was one, has left no blocks in it. */
static void open_cache(struct hk_tcache *cache)
{
    hk_store_release(cache->xbusy, 0);          /* a recall that loads this 0 also sees that the cache is not alive */
    if (HK_UNLIKELY(hk_load(cache->xrecalled))) /* a thread that was killed has left holes */
        for (unsigned class = 0; class < HK_CLASSES; class ++)
            hk_store(cache->xholes[class], 0);
    hk_store(cache->xrecalled, false);
    hk_tcache_enter(cache);
    hk_owner_open(&cache->owner);
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        hk_bin_reset(&cache->hot.bins[class]);
    cache->granted = 0;
    cache->reclaims_for_growth = false;
    cache->flushed = 0;
    cache->clean_before = SIZE_MAX;
    hk_outbox_open(&cache->outbox, &cache->owner);
    cache->hot.key = hk_entry(cache->owner.id, 0);
    cache->new_for = hk_pool_crowded() ? NEW_THREAD_BLOCKS : 0;
}

bool hk_tcache_begin(void)
{
    struct hk_tcache *cache = hk_pool_unpark(HK_UNPARK_NEWEST);
    if (cache == NULL) {
        if (!hk_pool_waits() && hk_tcaches_alive() > 0)
            hk_tcaches_reap(REAP_PER_BEGIN);
        cache = hk_pool_take();
        if (cache == NULL)
            return false;
        open_cache(cache);
    }
    memset(cache->held_until, 0, sizeof cache->held_until);
    hk_crossing_forget(cache);
    cache->ticker = hk_decay_first_ticker();
    cache->until_tick = HK_TICK_NOW;
    cache->sampling = false;
    cache->system_thread = 0;
    hk_store(cache->owner.xawake, UINT64_MAX);
    cache->alive = true;
    hk_liveness_take(&cache->liveness);
    cache->budget = hk_bins_budget();
    hk_self = &cache->hot;
    hk_tcache_leave(cache);
    HK_COUNT(threads_started, 1);
    return true;
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
    hk_tcache_flush(cache);
    cache->flushed = 0;
    struct hk_trim trim = hk_trim_begin();
    while (hk_slab_heap_trim_some(&cache->owner, &trim))
        continue;
    return trim.bytes;
}

size_t hk_tcache_trim_all(struct hk_tcache *cache, size_t keep)
{
    hk_tcaches_end_parked(true);
    size_t bytes = cache != NULL ? hk_tcache_trim(cache) : 0;
    (void)hk_tcaches_recall(true);
    hk_pool_purge();
    return bytes + hk_decay_all(keep);
}
