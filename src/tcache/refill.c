/* Refills a bin after a miss of malloc. */
#include "tcache/refill.h"

#include "slab/slab_heap.h"
#include "tcache/bins.h"
#include "tcache/drain.h"
#include "tcache/tick.h"

/* Without memory for the bin's array: a single block. */
static void *take_one(struct hk_tcache *cache, unsigned class)
{
    void *block = NULL;
    if (hk_slab_heap_alloc(&cache->owner, class, &block + 1, 1) != 0)
        cache->hot.bins[class].served++;
    return block;
}

static void count_miss(struct hk_tcache *cache, unsigned class, size_t size)
{
    struct hk_miss_counts *counts = &cache->miss_counts[class];
    hk_store(counts->xrequested, hk_load(counts->xrequested) + size);
    hk_store(counts->xcalls, hk_load(counts->xcalls) + 1);
    hk_store(cache->xmisses, hk_load(cache->xmisses) + 1);
}

HK_NOINLINE void *hk_tcache_refill(struct hk_tcache *cache, unsigned class, size_t size)
{
    struct hk_bin *bin = &cache->hot.bins[class];
    hk_tick(cache, hk_tick_weight(class));
    count_miss(cache, class, size);
    HK_TRACE(&cache->owner.ring, miss, hk_classes[class].size, 0);
    if (hk_bin_too_small(cache, class))
        hk_bin_grow(cache, class);
    bool needs_slab_soon = hk_list_looks_empty(&cache->owner.slab_lists[class].partial);
    if (hk_load(cache->owner.xpending) != 0 || (needs_slab_soon && hk_load(hk_queued_slabs[class]) > 0))
        hk_drain_for_miss(cache, class);
    if (hk_bin_capacity(bin) == 0)
        return take_one(cache, class);
    if (hk_bin_items(bin) == 0)
        hk_bin_fill(cache, class);
    return hk_hit_pop(&cache->hot, class * HK_CLASS_BYTES, false);
}

void *hk_tcache_alloc(struct hk_tcache *cache, unsigned class, size_t size)
{
    void *block = hk_hit_pop(&cache->hot, class * HK_CLASS_BYTES, false);
    return HK_LIKELY(block != NULL) ? block : hk_tcache_refill(cache, class, size);
}
