/* Recalls the free blocks in the caches of other threads, which may sleep. The blocks become remote frees, so that their pages can be purged.
 *
 *   recalling thread   sets xtaken, shuts the gate of malloc, makes all threads execute a fence, and gives up if xbusy is set
 *   cache's thread     sets xbusy at the begin of each slow call, and waits while xtaken is set
 *
 * The fence stands in for one in the cache's thread. After the fence, that thread is in no slow call, begins no hit of malloc, and executes at most
 * one hit that began before. This hit takes the newest block of a bin, so the recall leaves the newest block. Frees push blocks above it meanwhile.
 * The recalling thread replaces all other items by NULL. It cannot move items or change `top`, because the hit may still store `top`. */
#include "tcache/pool.h"

enum { MOST_ITEMS = HK_MAGAZINE_BLOCKS }; /* few, because the stack may be small */

HK_READS_SHARED_WORD static size_t items_now(const struct hk_bin *bin)
{
    return (size_t)(*(void **const volatile *)&bin->top - bin->base);
}

/* Moves at most MOST_ITEMS of the n lowest items of a bin to `items`, but not the n-th. Returns their number. */
HK_READS_SHARED_WORD static size_t take_older(struct hk_tcache *cache, unsigned class, size_t n, void **items)
{
    const struct hk_bin *bin = &cache->hot.bins[class];
    size_t first = 1 + hk_load(cache->xholes[class]), got = 0;
    for (size_t i = first; i < n && got < MOST_ITEMS; i++) {
        items[got++] = bin->base[i];
        bin->base[i] = NULL;
    }
    hk_store(cache->xholes[class], (uint8_t)(first - 1 + got));
    return got;
}

static void free_remotely(void *const *blocks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hk_remote_free(blocks[i], hk_page_map_lookup((uintptr_t)blocks[i]));
}

/* Frees may be hits meanwhile. A processor may make such a free's store of `top` visible before its store of the item. The fence makes the items below
 * each `top` that was read visible. */
static void take_all(struct hk_tcache *cache)
{
    void *items[MOST_ITEMS];
    uint8_t n_of[HK_CLASSES];
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        n_of[class] = (uint8_t)items_now(&cache->hot.bins[class]);
    if (!hk_os.fence_threads())
        return;
    hk_store(cache->xrecalled, true);
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        for (size_t n; (n = take_older(cache, class, n_of[class], items)) > 0;)
            free_remotely(items, n);
        for (size_t n; (n = hk_depot_take(&cache->depot, class, items, MOST_ITEMS)) > 0;)
            free_remotely(items, n);
    }
}

/* The last fence orders the stores of NULL before the hits that begin when the gate is open again. */
static void recall_from(struct hk_tcache *cache)
{
    hk_store(cache->xtaken, true);
    hk_gate_shut(HK_SHUT_RECALL);
    if (hk_os.fence_threads() && hk_load_acquire(cache->xbusy) == 0 && cache->alive) {
        take_all(cache);
        (void)hk_os.fence_threads();
    }
    hk_gate_release(HK_SHUT_RECALL);
    hk_store_release(cache->xtaken, false);
}

/* Holds hk_sweep_lock, which fork takes. So a fork child has no taken cache and an open gate, and no block is on its way. */
bool hk_tcaches_recall(bool awake_too)
{
    uint64_t now = hk_os.clock_ms(), rest = HK_RESTED_DELAYS * hk_max(HK_POLICY(purge_delay), HK_TICK_MS);
    uint64_t asleep_since = awake_too ? UINT64_MAX : now - hk_min(now, rest);
    const struct hk_tcache *self = hk_tcache_self();
    bool waits = false;
    bool keeps = !awake_too && hk_options.free_policy == HK_FREE_KEEP;
    if (keeps || !hk_slab_lists_shared || !hk_os.can_fence())
        return false;
    for (uint32_t id = HK_FIRST_OWNER; (id = hk_owner_next(id)) < hk_owner_end(); id++) {
        hk_lock(&hk_sweep_lock);
        struct hk_tcache *cache = hk_owner_rests(id) ? NULL : hk_tcache_by_id(id);
        bool recalls = cache != NULL && cache != self && hk_load(cache->owner.xopen) && !hk_load(cache->xrecalled);
        if (recalls && hk_load(cache->owner.xawake) <= asleep_since)
            recall_from(cache);
        else
            waits |= recalls;
        hk_unlock_in_turn(&hk_sweep_lock);
    }
    return waits;
}

static void close_holes(struct hk_tcache *cache)
{
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        struct hk_bin *bin = &cache->hot.bins[class];
        size_t holes = hk_load(cache->xholes[class]), blocks = hk_bin_items(bin) - holes;
        if (holes == 0)
            continue;
        memmove(bin->base + 1, bin->base + 1 + holes, blocks * sizeof(void *));
        bin->top = bin->base + blocks;
        hk_store(cache->xholes[class], 0);
    }
    hk_store(cache->xrecalled, false);
}

/* Does nothing in a slow call within another one, as in a signal handler, because the outer call may be using a bin. Does not wait if the program is
 * about to abort, perhaps in a recall that found a block freed twice, so that a thread that reports the crash can allocate. */
HK_COLD void hk_tcache_enter_slow(struct hk_tcache *cache)
{
    if (hk_load(cache->xbusy) > 1)
        return;
    while (hk_load_acquire(cache->xtaken) && !hk_load(hk_is_aborting)) {
        hk_store_release(cache->xbusy, 0);
        hk_os_pause();
        hk_store(cache->xbusy, 1);
        atomic_signal_fence(memory_order_seq_cst);
    }
    if (hk_load(cache->xrecalled))
        close_holes(cache);
}
