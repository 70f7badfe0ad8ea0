/* Sends a freed block to a bin, an outbox, a heap or the large blocks. */
#include "tcache/free_miss.h"

#include "large/large.h"
#include "decay/decay.h"
#include "heaps/heaps.h"
#include "slab/joined_blocks.h"
#include "slab/abandoned.h"
#include "slab/slab_heap.h"
#include "span/bootstrap.h"
#include "span/foreign.h"
#include "tcache/bins.h"
#include "tcache/flush.h"
#include "tcache/tick.h"

enum { KEEP_REMOTE_FROM = 1024 };

static bool allocates(const struct hk_tcache *cache, unsigned class) { return cache->hot.bins[class].served > 0; }

/* A block of 1 KiB or more stays in the freeing thread's bin, if that thread allocates such blocks too. Small blocks go
 * back: otherwise two threads would write to the same cache line. */
static bool of_use_here(const struct hk_tcache *cache, unsigned class)
{
    return hk_classes[class].size >= KEEP_REMOTE_FROM && allocates(cache, class);
}

void hk_tcache_keep(struct hk_tcache *cache, unsigned class, void *block)
{
    struct hk_bin *bin = &cache->hot.bins[class];
    if (hk_hit_push(&cache->hot, class * HK_CLASS_BYTES, block))
        return;
    HK_COUNT_THREAD(&cache->owner.counts, overflows, 1);
    HK_TRACE(&cache->owner.ring, overflow, hk_classes[class].size, 0);
    hk_tick(cache, hk_tick_weight(class));
    bool still_full = hk_bin_items(bin) == hk_bin_capacity(bin);
    if (still_full && (!hk_bin_too_small(cache, class) || !hk_bin_grow(cache, class)))
        hk_bin_flush(cache, class, (hk_bin_items(bin) + 1) / 2);
    if (!hk_hit_push(&cache->hot, class * HK_CLASS_BYTES, block))
        hk_flush(cache, &block, 1);
}

static void send_home(struct hk_tcache *cache, void *block)
{
    if (HK_UNLIKELY(hk_outbox_put(&cache->outbox, block)))
        hk_tick(cache, HK_TICK_NOW);
    else
        hk_tick(cache, HK_TICK_REMOTE_FREE);
}

/* Frees to an abandoned slab take its lock: once per block, or once per batch if the outbox has a table already. */
static void send_to_abandoned(struct hk_tcache *cache, void *block, uint32_t entry)
{
    if (cache->outbox.table != NULL)
        send_home(cache, block);
    else
        hk_remote_free(block, entry);
}

/* Adopts the abandoned slab if the freeing thread lacks blocks of the class. Otherwise the slab remains abandoned, where any
 * thread that lacks blocks finds it: a thread that frees and never allocates would withhold it from all others. */
static void free_abandoned(struct hk_tcache *cache, void *block, uint32_t entry)
{
    unsigned class = hk_entry_class(entry);
    bool wanted = allocates(cache, class) && !hk_slab_heap_has_partial(&cache->owner, class);
    struct hk_slab *slab = wanted ? hk_abandoned_claim(block, class, &cache->owner) : NULL;
    if (slab == NULL) {
        send_to_abandoned(cache, block, entry);
        return;
    }
    hk_slab_heap_enter(&cache->owner, slab);
    hk_tcache_keep(cache, class, block);
}

/* A new thread reuses blocks of the commons. Later it returns them, as blocks of its own slabs are faster. */
static void free_common(struct hk_tcache *cache, void *block, uint32_t entry)
{
    if (cache->new_for > 0 && hk_hit_push(&cache->hot, hk_entry_class(entry) * HK_CLASS_BYTES, block))
        cache->new_for--;
    else
        send_to_abandoned(cache, block, entry);
}

HK_COLD const char *hk_tcache_foreign_fault(const void *p)
{
    return hk_large_holds(p) ? HK_TEXT_inside : HK_TEXT_foreign;
}

HK_COLD size_t hk_tcache_foreign_extent(enum hk_call call, const void *block)
{
    size_t readable = hk_bootstrap_size(block);
    if (readable == SIZE_MAX)
        readable = hk_foreign_readable(block);
    if (readable == 0)
        hk_invalid_pointer(call, hk_tcache_foreign_fault(block), block);
    return readable;
}

HK_COLD void hk_tcache_free_foreign(enum hk_call call, void *block)
{
    if (hk_bootstrap_size(block) != SIZE_MAX)
        return;
    if (hk_foreign_readable(block) == 0)
        hk_invalid_pointer(call, hk_tcache_foreign_fault(block), block);
    HK_COUNT(foreign_frees, 1);
}

void hk_tcache_free_large(struct hk_tcache *cache, void *block)
{
    hk_large_free(block);
    hk_decay_notify();
    if (cache != NULL)
        hk_tick(cache, HK_TICK_SLOW_CALL);
}

/* A block of a slab with joined blocks. */
static HK_NOINLINE void free_mixed(struct hk_tcache *cache, void *block, uint32_t entry)
{
    uint32_t owner = hk_entry_owner(entry);
    if (owner == cache->owner.id)
        hk_tcache_keep(cache, hk_joined_class(block), block);
    else if (owner == HK_ABANDONED)
        send_to_abandoned(cache, block, entry);
    else
        send_home(cache, block);
}

/* A block of a heap of the program's own, a large one, or of a slab with joined blocks; or the thread has no cache. */
static HK_NOINLINE void free_unplain(struct hk_tcache *cache, void *block, uint32_t entry)
{
    if (hk_entry_is_heap(entry)) {
        if (!hk_heaps_free(HK_CALL_FREE, cache != NULL ? &cache->shelf : NULL, block, entry))
            hk_tcache_free_foreign(HK_CALL_FREE, block);
    } else if (hk_entry_is_large(entry))
        hk_tcache_free_large(cache, block);
    else if (cache == NULL)
        hk_remote_free(block, entry);
    else
        free_mixed(cache, block, entry);
}

static HK_NOINLINE void free_unowned(struct hk_tcache *cache, void *block, uint32_t entry)
{
    if (!hk_entry_is_plain(entry) || cache == NULL) {
        free_unplain(cache, block, entry);
        return;
    }
    unsigned class = hk_entry_class(entry), list = hk_abandoned_list(block);
    if (HK_UNLIKELY(list >= HK_FIRST_GROUP))
        send_to_abandoned(cache, block, entry);
    else if (list == HK_COMMONS)
        free_common(cache, block, entry);
    else if (of_use_here(cache, class))
        hk_tcache_keep(cache, class, block);
    else
        free_abandoned(cache, block, entry);
}

void hk_tcache_free(struct hk_tcache *cache, void *block, uint32_t entry)
{
    unsigned class = hk_entry_class(entry);
    if (HK_UNLIKELY(!hk_entry_is_plain_from(entry, HK_FIRST_OWNER)) || HK_UNLIKELY(cache == NULL))
        free_unowned(cache, block, entry);
    else if (hk_entry_owner(entry) == cache->owner.id || of_use_here(cache, class))
        hk_tcache_keep(cache, class, block);
    else
        send_home(cache, block);
}
