/* Counts a thread's slow calls, does its periodic work, refills its bins, and sends freed blocks to a bin, the outbox, a slab or the large cache. */
#include "tcache/tcache.h"
#include "slab/abandoned.h"
#include "slab/joined_blocks.h"
#include "slab/slab_heap.h"
#include "span/bootstrap.h"
#include "span/page_heap.h"

enum {
    WORK_FOR_GROWTH = 32 * HK_WORK_OF_CALL, /* added to a tick's sweep; 50 us for about 1 MiB that slow calls touched */
    WORK_FOR_EXCESS = 8192 * HK_WORK_OF_CALL, /* 25 ms for about 512 MiB that the program has freed */
    REAP_PER_EPOCH = 64,
};

static void on_epoch(struct hk_tcache *cache)
{
    hk_pool_epoch(cache->ticker.epoch_seen);
    hk_depot_age(cache);
    hk_bins_flush_idle(cache);
    hk_outbox_send_all(&cache->outbox);
    hk_outbox_drop_idle(&cache->outbox);
    hk_heap_shelf_age(&cache->shelf);
    hk_slab_heap_sweep_begin(&cache->owner, HK_SWEEP_AGED);
    hk_tcaches_end_parked(false);
    hk_tcaches_reap(REAP_PER_EPOCH);
}

int hk_tick_weight(unsigned class) { return HK_TICK_SLOW_CALL + (int)(hk_classes[class].slab_bytes / (2 * HK_SLICE)); }

/* Returns the resident bytes that the thread has freed in its slabs since the last sweep for growth or excess. Leaves out released slabs, and as
 * many bytes as all threads have purged in slabs since then, because sweeps by age may have purged these bytes. */
static size_t freed_in_slabs(struct hk_tcache *cache)
{
    size_t before = cache->released, released = cache->released = hk_load(cache->owner.xreleased);
    if (HK_LIKELY(cache->flushed < HK_MIB)) /* too little to matter; calls for large blocks tick each time */
        return 0;
    size_t clean = hk_slabs_clean();
    cache->flushed -= hk_min(cache->flushed, released - before);
    cache->clean_before = hk_min(cache->clean_before, clean);
    return cache->flushed - hk_min(cache->flushed, clean - cache->clean_before);
}

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
        hk_bins_empty(cache, false);
    if (hk_decay_tick(&cache->ticker))
        on_epoch(cache);
    size_t footprint = hk_decay_footprint();
    if (hk_decay_growth(&cache->ticker, footprint)) {
        hk_slab_heap_sweep_begin(&cache->owner, HK_SWEEP_GROWTH);
        cache->reclaims_for_growth = true;
    }
    struct hk_sweep share = hk_decay_share(&cache->ticker);
    size_t in_slabs = freed_in_slabs(cache);
    unsigned excess = hk_decay_purge_excess(&cache->ticker, footprint, in_slabs);
    if (HK_UNLIKELY(excess & HK_EXCESS_SHRUNK)) {
        hk_bins_empty(cache, false);
        hk_decay_purge_excess(&cache->ticker, hk_decay_footprint(), in_slabs);
    }
    if (HK_UNLIKELY(excess & HK_EXCESS_IN_SLABS)) {
        if (!cache->reclaims_for_growth)
            hk_slab_heap_sweep_begin(&cache->owner, HK_SWEEP_EXCESS);
        cache->reclaims_for_growth = true;
        share.work += WORK_FOR_EXCESS;
    }
    if (cache->reclaims_for_growth)
        share.work += WORK_FOR_GROWTH;
    if (share.work <= 0 || !hk_slab_heap_sweep(&cache->owner, &share) || !cache->reclaims_for_growth)
        return;
    cache->reclaims_for_growth = false;
    cache->flushed = 0;
    cache->clean_before = SIZE_MAX;
    hk_decay_swept(&cache->ticker);
}

HK_NOINLINE void hk_tick(struct hk_tcache *cache, int weight)
{
    cache->until_tick -= weight;
    if (HK_LIKELY(cache->until_tick > 0))
        return;
    hk_tcache_enter(cache);
    tick(cache);
    hk_tcache_leave(cache);
}

void hk_tcache_grew(struct hk_tcache *cache, size_t bytes)
{
    hk_tick(cache, bytes >= HK_MEDIUM_MAX ? HK_TICK_NOW : HK_TICK_SLOW_CALL);
}

static void count_refill(struct hk_tcache *cache, unsigned class)
{
    _Atomic uint64_t *calls = &cache->miss_counts[class].xcalls[cache->owner.source];
    hk_store(*calls, hk_load(*calls) + 1);
}

/* Returns a block of a class whose bin has no array, because the class is rare, or because memory for the array was refused. */
static void *alloc_without_bin(struct hk_tcache *cache, unsigned class)
{
    void *block = NULL;
    cache->hot.bins[class].served += hk_slab_heap_alloc(&cache->owner, class, &block + 1, 1);
    count_refill(cache, class);
    return block;
}

/* Pops a block for a slow call. Returns NULL if the bin is empty. Ends the program if the newest block was freed twice in a row, because the block
 * would otherwise serve two calls. */
static void *pop(struct hk_tcache *cache, unsigned class)
{
    void *block = hk_bin_pop(&cache->hot, class * HK_CLASS_BYTES, false);
    if (block == NULL && HK_UNLIKELY(*cache->hot.bins[class].top != NULL))
        hk_invalid_pointer(HK_CALL_FLUSH, HK_TEXT_already_free, *cache->hot.bins[class].top);
    return block;
}

/* Takes a block of a larger class from its bin, so that no slab of `class` is made. The block is aligned like blocks of `class`. Returns NULL if the
 * thread has blocks of `class` after all, or if no bin has such a block. In the latter case, counts `size` for the saved profile. */
static HK_NOINLINE void *instead_of_slab(struct hk_tcache *cache, unsigned class, size_t size)
{
    size_t own = hk_classes[class].size, align = hk_min(own & -own, HK_SLICE);
    if (hk_bin_items(&cache->hot.bins[class]) > 0 || cache->depot.classes[class].blocks > 0 ||
        hk_slab_heap_has_partial(&cache->owner, class) || hk_abandoned_has(class))
        return NULL;
    for (unsigned larger = class + 1; larger <= class + hk_class_settings[class].servers; larger++) {
        const struct hk_bin *bin = &cache->hot.bins[larger];
        if (hk_bin_items(bin) > 0 && ((uintptr_t)*bin->top & (align - 1)) == 0) {
            HK_COUNT_THREAD(&cache->owner.counts, fitted, 1);
            count_refill(cache, class);
            /* This miss does not count, because the bin stays empty and soon misses again, whatever its size. */
            cache->turns[class]--;
            return pop(cache, larger);
        }
    }
    if (hk_options.profile_save != NULL)
        hk_learned_vote(class, size);
    return NULL;
}

static HK_NOINLINE void *refill(struct hk_tcache *cache, unsigned class, size_t size)
{
    struct hk_bin *bin = &cache->hot.bins[class];
    struct hk_miss_counts *counts = &cache->miss_counts[class];
    void *block;
    hk_tick(cache, hk_tick_weight(class));
    hk_store(counts->xrequested, hk_load(counts->xrequested) + size);
    HK_COUNT_THREAD(&cache->owner.counts, misses, 1);
    HK_TRACE(&cache->owner.ring, miss, hk_classes[class].size, 0);
    hk_bin_grow_if_small(cache, class);
    hk_crossing_missed(cache, class);
    bool needs_slab_soon = hk_list_looks_empty(&cache->owner.slab_lists[class].partial);
    cache->owner.source = HK_SOURCE_OWN;
    if (hk_load(cache->owner.xpending) != 0 || (needs_slab_soon && hk_load(hk_queued_slabs[class]) > 0)) {
        hk_drain_for_miss(cache, class);
        if (needs_slab_soon && (hk_bin_items(bin) > 0 || hk_slab_heap_has_partial(&cache->owner, class)))
            cache->owner.source = HK_SOURCE_DRAINED;
    }
    if (HK_UNLIKELY(hk_bin_capacity(bin) == 0))
        return alloc_without_bin(cache, class);
    if (HK_UNLIKELY(needs_slab_soon) && HK_UNLIKELY(hk_classes_looks) &&
        (block = instead_of_slab(cache, class, size)) != NULL)
        return block;
    if (hk_bin_items(bin) == 0)
        hk_bin_fill(cache, class);
    count_refill(cache, class);
    return pop(cache, class);
}

void *hk_tcache_alloc(struct hk_tcache *cache, unsigned class, size_t size)
{
    hk_tcache_enter(cache);
    void *block = pop(cache, class);
    if (HK_LIKELY(block == NULL))
        block = refill(cache, class, size);
    hk_tcache_leave(cache);
    return block;
}

static bool allocates(const struct hk_tcache *cache, unsigned class) { return cache->hot.bins[class].served > 0; }

void hk_tcache_keep(struct hk_tcache *cache, unsigned class, void *block)
{
    struct hk_bin *bin = &cache->hot.bins[class];
    if (hk_hit_push(&cache->hot, class * HK_CLASS_BYTES, block))
        return;
    hk_tcache_enter(cache);
    HK_COUNT_THREAD(&cache->owner.counts, overflows, 1);
    HK_TRACE(&cache->owner.ring, overflow, hk_classes[class].size, 0);
    hk_tick(cache, hk_tick_weight(class));
    bool still_full = hk_bin_items(bin) == hk_bin_capacity(bin);
    /* realloc in place makes blocks of medium classes that the program may never request. Bins do not grow for such blocks. */
    bool serves = class < HK_FINE_CLASSES || bin->served > 0;
    if (still_full && (!serves || !hk_bin_grow_if_small(cache, class))) {
        hk_crossing_overflowed(cache, class);
        hk_bin_flush(cache, class, (hk_bin_items(bin) + 1) / 2);
    }
    if (!hk_hit_push(&cache->hot, class * HK_CLASS_BYTES, block))
        hk_flush(cache, &block, 1);
    hk_tcache_leave(cache);
}

static void send_home(struct hk_tcache *cache, void *block)
{
    hk_tick(cache, HK_UNLIKELY(hk_outbox_put(&cache->outbox, block)) ? HK_TICK_NOW : HK_TICK_REMOTE_FREE);
}

/* Frees a block of an abandoned slab. If the outbox has a table, puts the block into the outbox, because sending a batch of blocks locks the class
 * only once. Otherwise frees the block directly, and locks the class for this block. */
static void send_to_abandoned(struct hk_tcache *cache, void *block, uint32_t entry)
{
    if (cache->outbox.table != NULL)
        send_home(cache, block);
    else
        hk_remote_free(block, entry);
}

/* Adopts the abandoned slab of a block. Returns false if the slab may not be adopted. */
static bool adopt_slab_of(struct hk_tcache *cache, const void *block, unsigned class)
{
    struct hk_slab *slab = hk_abandoned_claim(block, class, &cache->owner);
    if (slab != NULL)
        hk_slab_heap_enter(&cache->owner, slab);
    return slab != NULL;
}

/* Frees a block of an abandoned slab. Adopts the slab if the freeing thread lacks blocks of the class. Otherwise the slab stays abandoned, because
 * another thread may lack blocks, and a thread that only frees would never use the slab. */
static void free_abandoned(struct hk_tcache *cache, void *block, uint32_t entry)
{
    unsigned class = hk_entry_class(entry);
    bool wanted = allocates(cache, class) && !hk_slab_heap_has_partial(&cache->owner, class);
    if (wanted && adopt_slab_of(cache, block, class))
        hk_tcache_keep(cache, class, block);
    else
        send_to_abandoned(cache, block, entry);
}

HK_COLD const char *hk_tcache_foreign_fault(const void *p)
{
    return hk_large_holds(p) ? HK_TEXT_inside : HK_TEXT_foreign;
}

HK_COLD size_t hk_tcache_foreign_extent(enum hk_call call, const void *block)
{
    size_t readable = hk_foreign_readable(block);
    if (readable == 0)
        hk_invalid_pointer(call, hk_tcache_foreign_fault(block), block);
    return readable;
}

HK_COLD void hk_tcache_free_foreign(enum hk_call call, void *block)
{
    (void)hk_tcache_foreign_extent(call, block);
    HK_COUNT(foreign_frees, 1);
}

void hk_tcache_free_large(struct hk_tcache *cache, void *block)
{
    hk_large_free(block);
    hk_decay_notify();
    if (cache != NULL)
        hk_tick(cache, HK_TICK_SLOW_CALL);
}

/* Frees a block of a user heap, a large block, or a block of a slab with joined blocks. If `cache` is NULL, frees a block of any kind. */
static HK_NOINLINE void free_unplain(struct hk_tcache *cache, void *block, uint32_t entry)
{
    if (hk_entry_is_heap(entry)) {
        if (!hk_heaps_free(HK_CALL_FREE, cache != NULL ? &cache->shelf : NULL, block, entry))
            hk_tcache_free_foreign(HK_CALL_FREE, block);
    } else if (hk_entry_is_large(entry))
        hk_tcache_free_large(cache, block);
    else if (cache == NULL)
        hk_remote_free(block, entry);
    else if (hk_entry_owner(entry) == cache->owner.id)
        hk_tcache_keep(cache, hk_class_that_fits(hk_joined_bytes(block)), block);
    else if (hk_entry_owner(entry) == HK_ABANDONED)
        send_to_abandoned(cache, block, entry);
    else
        send_home(cache, block);
}

static HK_NOINLINE void free_unowned(struct hk_tcache *cache, void *block, uint32_t entry)
{
    if (!hk_entry_is_plain(entry) || cache == NULL) {
        free_unplain(cache, block, entry);
        return;
    }
    unsigned class = hk_entry_class(entry), list = hk_abandoned_list(block);
    /* A new thread reuses a block of the commons. An older thread returns it, because blocks of its own slabs are faster. */
    if (list == HK_COMMONS && cache->new_for > 0 && hk_hit_push(&cache->hot, class * HK_CLASS_BYTES, block))
        cache->new_for--;
    else if (list == HK_COMMONS || HK_UNLIKELY(list >= HK_FIRST_GROUP))
        send_to_abandoned(cache, block, entry);
    else if (hk_crossing_keeps(cache, class))
        hk_tcache_keep(cache, class, block);
    else
        free_abandoned(cache, block, entry);
}

void hk_tcache_free(struct hk_tcache *cache, void *block, uint32_t entry)
{
    unsigned class = hk_entry_class(entry);
    if (HK_UNLIKELY(!hk_entry_is_plain_from(entry, HK_FIRST_OWNER)) || HK_UNLIKELY(cache == NULL))
        free_unowned(cache, block, entry);
    else if (hk_entry_owner(entry) == cache->owner.id || hk_crossing_keeps(cache, class))
        hk_tcache_keep(cache, class, block);
    else {
        hk_crossing_sent(cache, class);
        send_home(cache, block);
    }
}

bool hk_tcache_should_move(struct hk_tcache *cache, const void *block)
{
    uint32_t entry = hk_page_map_lookup((uintptr_t)block);
    unsigned class = hk_entry_class(entry);
    if (cache == NULL || entry == 0 || hk_entry_is_heap(entry) || class >= HK_FINE_CLASSES ||
        (hk_entry_owner(entry) == HK_ABANDONED && !adopt_slab_of(cache, block, class)))
        return false;
    if (hk_entry_is_mixed(entry))
        class = hk_class_that_fits(hk_joined_bytes(block));
    hk_tcache_enter(cache);
    hk_tick(cache, HK_TICK_REMOTE_FREE);
    /* Returns the newest blocks to their slabs, because the old place of a block that was just moved must neither count as used nor serve next. */
    struct hk_bin *bin = &cache->hot.bins[class];
    unsigned newest = (unsigned)hk_min(hk_bin_items(bin), 2);
    hk_flush(cache, (bin->top -= newest) + 1, newest);
    void *place;
    unsigned got = hk_slab_heap_take_fuller(&cache->owner, class, hk_slab_at((uintptr_t)block), &place + 1);
    if (got > 0)
        hk_tcache_keep(cache, class, place);
    cache->flushed += (hk_max(newest, got) - got) * hk_classes[class].size;
    hk_tcache_leave(cache);
    return got > 0;
}
