/* Flushes a cache. Ends the cache of a thread that ends, that was killed, or that a fork child does not have. */
#include "slab/slab_heap.h"
#include "tcache/pool.h"

void hk_tcache_flush(struct hk_tcache *cache)
{
    hk_tcache_enter(cache);
    hk_quarantine_empty(cache);
    hk_drain_all(cache);
    hk_bins_empty(cache, true);
    hk_outbox_send_all(&cache->outbox);
    hk_heap_shelf_shrink(&cache->shelf);
    hk_tcache_leave(cache);
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
    hk_decay_read_clock(&cache->ticker);
    hk_decay_tick(&cache->ticker);
    hk_decay_notify();
    HK_COUNT(threads_ended, 1);
    hk_liveness_drop(&cache->liveness);
    hk_pool_put(cache); /* xbusy stays set, so that a recall does not take the cache before its next thread has begun */
}

void hk_tcache_end(void)
{
    struct hk_tcache *cache = hk_tcache_self();
    hk_pool_shut_ended();
    hk_self = &hk_thread_ended.hot;
    if (cache != NULL)
        end(cache);
}

bool hk_tcaches_reap(unsigned most)
{
    bool reaped = false;
    most = (unsigned)hk_min(most, hk_owner_end() - HK_FIRST_OWNER);
    for (struct hk_tcache *cache; (cache = hk_pool_next_dead(&most)) != NULL; reaped = true)
        end(cache);
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
