/* Flushes a cache. Parks or ends the cache of a thread that ends. Ends the cache of a thread that was killed, or that a fork child does not have. */
#include "slab/slab_heap.h"
#include "span/page_heap.h"
#include "tcache/pool.h"

/* A parked cache has at most MOST_HELD bytes in slabs of small blocks, and at most MOST_MEDIUM slabs of medium blocks. Its bins and its depot keep at
 * most MOST_HELD bytes, or its share of 1/HEAP_PER_HELD of the heap. Another thread ends 2048 slabs in about 100 us. */
#define MOST_HELD (640 * HK_KIB)
enum { HEAP_PER_HELD = 16, MOST_MEDIUM = 2048 };

/* Drains the inboxes last. The outbox may send blocks to slabs that the thread has taken over. These blocks then wait in the thread's own inboxes. */
void hk_tcache_flush(struct hk_tcache *cache)
{
    hk_tcache_enter(cache);
    hk_quarantine_empty(cache);
    hk_bins_empty(cache, true);
    hk_outbox_send_all(&cache->outbox);
    hk_drain_all(cache);
    hk_heap_shelf_shrink(&cache->shelf);
    hk_tcache_leave(cache);
}

/* Reads the clock for the last time, because the thread may have made too few slow calls to read it. From here on, the cache has no thread. */
static void leave_cache(struct hk_tcache *cache)
{
    hk_decay_read_clock(&cache->ticker);
    hk_decay_tick(&cache->ticker);
    hk_decay_notify();
    hk_liveness_drop(&cache->liveness);
}

/* Returns true if a parked cache may keep the blocks that its bins and its depot hold now. */
static bool holds_little(const struct hk_tcache *cache)
{
    size_t bytes = cache->depot.bytes;
    if (bytes + cache->granted <= MOST_HELD) /* the bins hold at most `granted` bytes */
        return true;
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        bytes += hk_bin_items(&cache->hot.bins[class]) * hk_classes[class].size;
    size_t share = hk_slab_lists_shared ? hk_page_heap_dirty() / (HEAP_PER_HELD * (hk_pool_parked() + 1)) : 0;
    return bytes <= hk_max(MOST_HELD, share);
}

static size_t bytes_of_slabs(const struct hk_list *list)
{
    size_t bytes = 0;
    for (const struct hk_link *link = list->head.next; link != &list->head && bytes <= MOST_HELD; link = link->next)
        bytes += hk_container_of(link, struct hk_slab, link)->d.bytes;
    return bytes;
}

/* Returns true if the slabs may keep their owner. Medium slabs hardly count if other threads can take them over, because threads that free medium
 * blocks also reuse them, whoever owns the slab. */
static bool owns_little(struct hk_owner *owner)
{
    size_t bytes = 0;
    hk_slab_lists_lock(owner);
    unsigned fine_classes = hk_slab_lists_shared ? HK_FINE_CLASSES : HK_CLASSES;
    size_t medium = owner->slabs;
    for (unsigned class = 0; class < fine_classes && medium > 0 && bytes <= MOST_HELD; class ++) {
        const struct hk_slab_list *list = &owner->slab_lists[class];
        if (list->slabs == 0)
            continue;
        medium -= list->slabs;
        bytes += bytes_of_slabs(&list->partial) + bytes_of_slabs(&list->full);
    }
    hk_slab_lists_unlock(owner);
    return bytes <= MOST_HELD && medium <= MOST_MEDIUM;
}

/* Returns true if the two newest items of a bin are the same block, which the program has freed twice. The flush at the cache's end reports it. */
static bool ends_with_double_free(const struct hk_tcache *cache)
{
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        void *const *newest = cache->hot.bins[class].top;
        if (*newest != NULL && newest[-1] == *newest)
            return true;
    }
    return false;
}

/* Parks a cache with its slabs. Programs that begin and end many threads then need not abandon and adopt the slabs, and the blocks of the ended thread
 * belong to the next one. The outbox must be empty, because its blocks are live in the slabs of other threads. */
static bool park(struct hk_tcache *cache)
{
    bool keeps = HK_POLICY(purge_delay) > 0 && hk_policy_phase() != HK_PHASE_TIGHT && cache->quarantine == NULL &&
                 hk_load(cache->owner.ring.xevents) == NULL;
    hk_tcache_enter(cache); /* the cache stays in this slow call until its next thread has begun, or until it ends */
    bool parks = keeps && owns_little(&cache->owner) && !ends_with_double_free(cache);
    if (parks) {
        hk_drain_all(cache);
        if (!holds_little(cache))
            hk_bins_empty(cache, true);
        hk_outbox_send_all(&cache->outbox);
        hk_heap_shelf_end(&cache->shelf);
        cache->system_thread = 0;
        leave_cache(cache);
        parks = hk_pool_park(cache);
    }
    if (!parks)
        hk_tcache_leave(cache);
    return parks;
}

/* Ends a cache. Drains the inboxes a second time after closing them, because other threads may have queued slabs since the first drain. */
static void end(struct hk_tcache *cache)
{
    hk_tcache_enter(cache);
    hk_tcache_flush(cache);
    hk_inboxes_close(&cache->owner);
    hk_slab_heap_abandon(&cache->owner);
    hk_drain_all(cache);
    hk_outbox_send_all(&cache->outbox);
    hk_outbox_drop(&cache->outbox);
    hk_heap_shelf_end(&cache->shelf);
    leave_cache(cache);
    hk_pool_put(cache); /* xbusy stays set, so that a recall does not take the cache before its next thread has begun */
}

void hk_tcache_end(void)
{
    struct hk_tcache *cache = hk_tcache_self();
    hk_pool_shut_ended();
    hk_self = &hk_thread_ended.hot;
    if (cache == NULL)
        return;
    HK_COUNT(threads_ended, 1);
    if (!park(cache))
        end(cache);
}

void hk_tcaches_end_parked(bool all)
{
    struct hk_tcache *cache;
    unsigned left = HK_POOL_PARKED; /* other threads may park more meanwhile */
    while (left-- > 0 && (cache = hk_pool_unpark(all ? HK_UNPARK_OLDEST : HK_UNPARK_DUE)) != NULL) {
        if (!all && cache->owner.slabs > MOST_MEDIUM / HK_POOL_PARKED)
            left = 0; /* the end of a cache with many slabs takes long, so a later call ends the other caches */
        end(cache);
    }
}

void hk_tcaches_all_ended(void)
{
    if (!hk_pool_left_is_due())
        return;
    hk_tcaches_end_parked(true);
    hk_decay_left(hk_pool_purge());
}

bool hk_tcaches_reap(unsigned most)
{
    bool reaped = false;
    most = (unsigned)hk_min(most, hk_owner_end() - HK_FIRST_OWNER);
    for (struct hk_tcache *cache; (cache = hk_pool_next_dead(&most)) != NULL; reaped = true) {
        HK_COUNT(threads_ended, 1);
        end(cache);
    }
    return reaped;
}

/* Called in a fork child for a thread that does not exist there. Leaks the blocks in the thread's cache, and counts them. They cannot be reused,
 * because the thread may have been handing out a block or writing to an array at the moment of the fork. */
static void forget_cache(struct hk_tcache *cache)
{
    size_t blocks = hk_outbox_forget(&cache->outbox) + hk_depot_forget(&cache->depot) + hk_quarantine_forget(cache);
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        blocks += hk_min(hk_bin_blocks(cache, class), hk_classes[class].cap);
    HK_COUNT(fork_stranded, blocks);
    cache->shelf = (struct hk_heap_shelf){NULL, 0, 0, 0, 0};
    hk_liveness_forget(&cache->liveness);
    hk_pool_put(cache);
}

void hk_tcaches_fork_child(void)
{
    struct hk_tcache *self = hk_tcache_self();
    for (uint32_t id = hk_owner_next(HK_FIRST_OWNER); id < hk_owner_end(); id = hk_owner_next(id + 1)) {
        struct hk_tcache *cache = hk_tcache_by_id(id);
        if (cache != self && cache->alive)
            forget_cache(cache);
    }
    hk_pool_fork_child(self != NULL);
    hk_outboxes_recount(self != NULL ? &self->outbox : NULL);
    HK_COUNT(fork_stranded, hk_heaps_fork_child(self != NULL ? &self->shelf : NULL));
}

static void unmark(void *const *blocks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (blocks[i] != NULL)
            (void)hk_mark_end_fast(blocks[i]);
}

void hk_tcache_fork_child_unmark(struct hk_tcache *cache)
{
    for (unsigned class = HK_FINE_CLASSES; class < HK_CLASSES; class ++) {
        const struct hk_bin *bin = &cache->hot.bins[class];
        unmark(bin->base + 1, hk_bin_items(bin));
        for (struct hk_magazine *magazine = cache->depot.classes[class].newest; magazine != NULL;
             magazine = magazine->next)
            unmark(magazine->blocks, magazine->count);
    }
}
