#include "api/alloc_slow.h"

#include "big/big.h"
#include "decay/decay.h"
#include "guard/sampled.h"
#include "prof/apart.h"
#include "prof/hooks.h"
#include "prof/watch.h"
#include "runtime/learning.h"
#include "runtime/life.h"
#include "slab/live.h"
#include "slab/orphans.h"
#include "span/bootstrap.h"
#include "span/footprint.h"
#include "tcache/pool.h"

#define LARGEST_SMALL_ALIGN HK_SLICE

static void *big_alloc(struct hk_tcache *cache, size_t size, size_t align, bool *zeroed)
{
    void *block = hk_big_alloc(size, align, zeroed);
    if (block != NULL && cache != NULL) {
        HK_COUNT_THREAD(&cache->owner.counts, big_calls, 1);
        if (*zeroed)
            hk_tcache_grew(cache, size);
    } else if (block != NULL)
        HK_COUNT(orphan_calls, 1);
    return block;
}

static HK_COLD void *aligned_instead(struct hk_tcache *cache, unsigned class, void *block)
{
    void *aligned = hk_tcache_alloc_aligned(cache, class);
    hk_tcache_free(cache, block, hk_page_map_lookup((uintptr_t)block));
    return aligned;
}

/* If address space is scarce, a big block's mapping wastes less of it than a span does. */
#define SCARCE_SIZES_TO (128 * HK_KIB)
static size_t class_sizes_to(void)
{
    return HK_LIKELY(!hk_load(hk_footprint.xscarce)) ? HK_LARGE_MAX : SCARCE_SIZES_TO;
}

/* HK_CLASSES for a big block. */
static unsigned class_for(size_t size, size_t align)
{
    return size <= class_sizes_to() && align <= LARGEST_SMALL_ALIGN ? hk_class_of_aligned(size, align) : HK_CLASSES;
}

static void *try_alloc(size_t size, size_t align, bool *zeroed)
{
    unsigned class = class_for(size, align);
    struct hk_tcache *cache = hk_life_cache();
    *zeroed = false;
    if (class == HK_CLASSES)
        return big_alloc(cache, size, align, zeroed);
    void *block = HK_LIKELY(cache != NULL) ? hk_tcache_alloc(cache, class, size) : hk_orphans_alloc(class);
    if (HK_UNLIKELY(((uintptr_t)block & (align - 1)) != 0) && cache != NULL)
        block = aligned_instead(cache, class, block);
    if (class >= HK_FINE_CLASSES && block != NULL)
        hk_live_begin(block);
    return block;
}

/* For an allocation that is not to be picked any more. No pick follows directly after another. */
static HK_COLD void *try_unpicked(size_t size, size_t align, bool *zeroed)
{
    void *block = try_alloc(size, align, zeroed);
    return block == NULL && hk_sampled_picked() ? try_alloc(size, align, zeroed) : block;
}

/* After a refusal: purges everything and tries once more, as HAKMEM's own dirty memory may exhaust the limit. */
static HK_COLD void *try_again(size_t size, size_t align, bool *zeroed)
{
    struct hk_tcache *cache = hk_tcache_self();
    if (size >= (size_t)1 << HK_ADDRESS_BITS)
        return NULL;
    if (cache != NULL)
        hk_tcache_trim(cache);
    hk_pool_purge();
    hk_decay_all(0);
    (void)hk_footprint_read_limit(); /* the program may have changed it */
    if (cache != NULL)
        hk_tcache_steal_all(cache);
    return try_unpicked(size, align, zeroed);
}

/* What try_alloc() refused: the allocation is picked for a guard page, or memory is short. */
static HK_COLD void *alloc_otherwise(size_t size, size_t align, bool *zeroed, void *caller)
{
    void *block = NULL;
    if (hk_sampled_picked() && (block = hk_sampled_alloc(size, align, caller)) == NULL)
        block = try_unpicked(size, align, zeroed);
    else
        *zeroed = block != NULL;
    return block != NULL ? block : try_again(size, align, zeroed);
}

/* NULL if the allocation is not picked, or without room for a picked block. */
static HK_COLD void *alloc_picked(size_t size, size_t align, bool *zeroed, void *caller)
{
    struct hk_tcache *cache = hk_life_cache();
    if (cache == NULL || !hk_watch_picks(cache, size, caller))
        return NULL;
    *zeroed = false;
    void *block = size <= HK_FINE_MAX ? hk_apart_alloc(size, align) : big_alloc(cache, size, align, zeroed);
    if (block != NULL)
        hk_hooks_picked(cache, block, size, caller);
    return block;
}

/* Allocations before HAKMEM has started, and all allocations while hooks are on. A request that would be a hit is
 * served from the bin here: hooks do not change the program's blocks. */
static HK_NOINLINE void *alloc_at_the_edge(size_t size, size_t align, bool *zeroed, void *caller)
{
    if (!hk_hooks.on) {
        *zeroed = true;
        return hk_life_is_bootstrapping() ? hk_bootstrap_alloc(size, align) : NULL;
    }
    HK_FENCE(memory_order_acquire); /* a running process begins to be watched */
    void *block = hk_hooks.watches ? alloc_picked(size, align, zeroed, caller) : NULL;
    if (block != NULL)
        return block;
    bool hits = size <= HK_FINE_MAX && align <= HK_FINE_STEP;
    *zeroed = false;
    block = hits ? hk_hit_malloc_fine(size) : NULL;
    if (block == NULL)
        block = try_alloc(size, align, zeroed);
    if (block == NULL)
        block = alloc_otherwise(size, align, zeroed, caller);
    if (HK_LIKELY(block != NULL))
        hk_hooks_alloc(HK_EVENT_alloc, block, size, caller);
    return block;
}

void *hk_alloc_slow(size_t size, size_t align, bool *zeroed, void *caller)
{
    void *block;
    if (HK_UNLIKELY(HK_LOAD_SETTLED(hk_hooks.on)) || HK_UNLIKELY(!hk_life_started()))
        block = alloc_at_the_edge(size, align, zeroed, caller);
    else if (HK_UNLIKELY((block = try_alloc(size, align, zeroed)) == NULL))
        block = alloc_otherwise(size, align, zeroed, caller);
    if (HK_UNLIKELY(hk_learning_is_due()))
        hk_learning_tick();
    return block;
}

static void *big_resize(void *block, size_t size, size_t extent_now)
{
    struct hk_tcache *cache = hk_life_cache();
    void *resized = hk_big_resize(block, size);
    if (resized != NULL && cache != NULL && size > extent_now)
        hk_tcache_grew(cache, size - extent_now);
    return resized;
}

static void *resize_in_place(void *block, size_t size, size_t extent_now)
{
    if (extent_now <= HK_FINE_MAX)
        return NULL;
    if (hk_entry_class(hk_page_map_lookup((uintptr_t)block)) == HK_CLASS_BIG)
        return big_resize(block, size, extent_now);
    return hk_tcache_resize(hk_life_cache(), block, size) ? block : NULL;
}

/* Resizes without a copy; NULL if that is impossible. */
static void *resized_here(void *block, size_t size, size_t now)
{
    return hk_stays(size, now) ? block : resize_in_place(block, size, now);
}

static HK_COLD void *resize_hooked(void *block, size_t size, size_t now, void *caller)
{
    uint64_t record = hk_hooks_resize_begin(block);
    void *resized = resized_here(block, size, now);
    hk_hooks_resize_end(block, record, resized, size, caller);
    return resized;
}

void *hk_resize_slow(void *block, size_t size, size_t now, void *caller)
{
    return HK_LOAD_SETTLED(hk_hooks.on) ? resize_hooked(block, size, now, caller) : resized_here(block, size, now);
}
