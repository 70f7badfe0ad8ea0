/* Grows, fills and empties the bins of a thread within the thread's byte budget. */
#include "tcache/bins.h"
#include "count/decisions.h"
#include "slab/abandoned.h"
#include "slab/slab_heap.h"
#include "span/meta.h"
#include "span/page_heap.h"
#include "tcache/pool.h"

enum {
    BLOCKS_PER_EPOCH = 1024, /* blocks flushed from idle bins per epoch; this takes about 50 microseconds */
    TOO_SMALL_TURNOVER = 4,
    FIRST_CAPACITY = 15,
    BATCH_BYTES = 64 * 1024,
    RECLAIM_SLABS = 2,
};
#define FIRST_BYTES (64 * HK_KIB)
#define NEW_THREAD_BYTES (1 * HK_KIB)
#define RECLAIM_FROM (256 * HK_KIB)
#define HEAP_PER_BUDGET (64 * HK_MIB)

uint64_t hk_bins_random;

static size_t array_bytes(size_t capacity) { return (capacity + 1) * sizeof(void *); }

static size_t largest_capacity(unsigned class)
{
    size_t most = hk_classes[class].cap;
    while (most > hk_options.bin_cap)
        most /= 2;
    return most;
}

/* Returns true if the bin is filled from the commons. The commons are slabs that new threads share if there are many threads. */
static bool from_commons(const struct hk_tcache *cache, unsigned class)
{
    return HK_UNLIKELY(cache->new_for > 0) && hk_classes[class].tier != HK_TIER_MEDIUM;
}

/* Returns the next capacity of a bin. A bin begins small and grows fourfold. A bin of medium blocks begins with one block, even over the budget. Tiny
 * classes may exceed the cache's budget by half, because a few bins of medium blocks may use up the whole budget. */
static size_t next_capacity(const struct hk_tcache *cache, unsigned class, size_t now)
{
    size_t size = hk_classes[class].size;
    bool was_new = now < FIRST_CAPACITY && FIRST_CAPACITY * size <= FIRST_BYTES;
    size_t target = now == 0 || was_new ? FIRST_CAPACITY : now * 4 + 3;
    size_t most = largest_capacity(class), first_bytes = from_commons(cache, class) ? NEW_THREAD_BYTES : FIRST_BYTES;
    while (target > most || (now == 0 && target > 1 && target * size > first_bytes))
        target /= 2;
    size_t budget = cache->budget + (hk_classes[class].tier == HK_TIER_TINY ? cache->budget / 2 : 0);
    while (target > now && target > 1 && cache->granted + (target - now) * size > budget)
        target /= 2;
    return target;
}

static void note_capacity(const struct hk_tcache *cache, unsigned class, enum hk_decision_kind kind, size_t before)
{
    const struct hk_bin *bin = &cache->hot.bins[class];
    if (HK_LIKELY(hk_options.explain == NULL))
        return;
    uint32_t since = kind == HK_DECISION_bin_grown ? cache->served_at_turn[class] : cache->served_at_epoch[class];
    hk_decision_note(&(struct hk_decision){.ms = cache->ticker.now,
                                           .kind = kind,
                                           .before = before,
                                           .after = hk_bin_capacity(bin),
                                           .seen = {(uint32_t)bin->served - since, cache->granted, cache->budget},
                                           .thread = cache->owner.id,
                                           .size = hk_classes[class].size});
}

bool hk_bin_grow(struct hk_tcache *cache, unsigned class)
{
    struct hk_bin *bin = &cache->hot.bins[class];
    size_t now = hk_bin_capacity(bin), items = hk_bin_items(bin);
    if (now >= largest_capacity(class) || (now > 0 && from_commons(cache, class)))
        return false;
    size_t capacity = next_capacity(cache, class, now);
    if (capacity <= now) {
        HK_COUNT_THREAD(&cache->owner.counts, cramped, 1);
        return false;
    }
    void **array = hk_meta_alloc(array_bytes(capacity));
    if (array == NULL)
        return false;
    memcpy(array, bin->base, array_bytes(items));
    if (now > 0)
        hk_meta_free(bin->base, array_bytes(now));
    bin->base = array;
    bin->top = array + items;
    bin->limit = array + capacity;
    cache->granted += (capacity - now) * hk_classes[class].size;
    note_capacity(cache, class, HK_DECISION_bin_grown, now);
    return true;
}

/* Frees the array of an empty bin. */
static void drop_bin_array(struct hk_tcache *cache, unsigned class)
{
    struct hk_bin *bin = &cache->hot.bins[class];
    size_t capacity = hk_bin_capacity(bin);
    if (capacity == 0)
        return;
    hk_meta_free(bin->base, array_bytes(capacity));
    cache->granted -= capacity * hk_classes[class].size;
    hk_bin_reset(bin);
    note_capacity(cache, class, HK_DECISION_bin_dropped, capacity);
}

static HK_NOINLINE unsigned take_common(struct hk_tcache *cache, unsigned class, void **end, unsigned want)
{
    unsigned got = hk_abandoned_take(class, HK_COMMONS, end, want);
    cache->new_for -= (int)got;
    return got;
}

/* Returns true if the class needs a new slab, no dirty slices can hold the slab, and the depot has enough blocks of other classes. A flush of these
 * blocks may release their slabs. The new slab then reuses dirty memory, and no new memory is touched. */
static bool could_be_reclaimed(struct hk_tcache *cache, unsigned class)
{
    struct hk_page_heap_totals slices;
    if (cache->depot.bytes < RECLAIM_FROM || hk_slab_heap_has_partial(&cache->owner, class) || hk_abandoned_has(class))
        return false;
    hk_page_heap_total(&slices);
    return slices.free_dirty < hk_classes[class].slab_bytes;
}

static HK_NOINLINE void shuffle(void **blocks, size_t n, uint64_t random)
{
    for (; n > 1; n--) {
        random = hk_random_next(random);
        size_t with = (size_t)((hk_wide)random * n >> 64);
        void *block = blocks[with];
        blocks[with] = blocks[n - 1];
        blocks[n - 1] = block;
    }
}

size_t hk_bin_fill(struct hk_tcache *cache, unsigned class)
{
    struct hk_bin *bin = &cache->hot.bins[class];
    size_t got = hk_depot_take(&cache->depot, class, bin->base + 1, hk_bin_capacity(bin));
    if (got == 0) {
        /* Fills the bin to half of its capacity, so that frees find room in the bin. Takes at most BATCH_BYTES, but at least one block. */
        size_t half = (hk_bin_capacity(bin) + 1) / 2;
        unsigned want = (unsigned)hk_max(1, hk_min(half, BATCH_BYTES / hk_classes[class].size));
        void **end = bin->base + 1 + want;
        if (HK_UNLIKELY(could_be_reclaimed(cache, class)))
            hk_depot_reclaim(cache, class, RECLAIM_SLABS * hk_classes[class].slab_bytes);
        got = from_commons(cache, class) ? take_common(cache, class, end, want) : 0;
        if (HK_LIKELY(got == 0))
            got = hk_slab_heap_alloc(&cache->owner, class, end, want);
        if (got < want)
            memmove(bin->base + 1, end - got, got * sizeof(void *));
        if (HK_UNLIKELY(hk_bins_random != 0))
            shuffle(bin->base + 1, got, hk_bins_random ^ bin->served ^ (uintptr_t)bin);
    }
    bin->top = bin->base + got;
    return got;
}

void hk_bin_flush(struct hk_tcache *cache, unsigned class, size_t n)
{
    struct hk_bin *bin = &cache->hot.bins[class];
    if (hk_bin_capacity(bin) < largest_capacity(class) || !hk_depot_put(&cache->depot, class, bin->base + 1, n))
        hk_flush(cache, bin->base + 1, (unsigned)n);
    size_t rest = hk_bin_items(bin) - n;
    memmove(bin->base + 1, bin->base + 1 + n, rest * sizeof(void *));
    bin->top = bin->base + rest;
}

void hk_bin_empty(struct hk_tcache *cache, unsigned class)
{
    struct hk_bin *bin = &cache->hot.bins[class];
    if (hk_bin_items(bin) > 0)
        hk_flush(cache, bin->base + 1, (unsigned)hk_bin_items(bin));
    bin->top = bin->base;
}

void hk_bins_reset(struct hk_tcache *cache)
{
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        hk_bin_reset(&cache->hot.bins[class]);
    cache->granted = 0;
}

size_t hk_bins_budget(void)
{
    size_t heap_a_thread = hk_page_heap_dirty() / hk_max(1, hk_tcaches_alive());
    return HK_POLICY(thread_cache) * hk_max(1, heap_a_thread / HEAP_PER_BUDGET);
}

void hk_bins_empty(struct hk_tcache *cache)
{
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        hk_bin_empty(cache, class);
        drop_bin_array(cache, class);
    }
    hk_depot_empty(cache);
}

void hk_bins_flush_idle(struct hk_tcache *cache)
{
    size_t left = BLOCKS_PER_EPOCH;
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        struct hk_bin *bin = &cache->hot.bins[class];
        bool idle = cache->served_at_epoch[class] == (uint32_t)bin->served;
        bool held = class >= HK_FINE_CLASSES && cache->ticker.now < cache->held_until[class - HK_FINE_CLASSES];
        size_t items = hk_bin_items(bin);
        cache->served_at_epoch[class] = (uint32_t)bin->served;
        if (!idle || held || items > left)
            continue;
        left -= items;
        if (items > 0)
            hk_bin_empty(cache, class);
        else
            drop_bin_array(cache, class);
    }
}

bool hk_bin_grow_if_small(struct hk_tcache *cache, unsigned class)
{
    const struct hk_bin *bin = &cache->hot.bins[class];
    size_t since = (uint32_t)bin->served - cache->served_at_turn[class], capacity = hk_bin_capacity(bin);
    bool grown = (capacity == 0 || since <= TOO_SMALL_TURNOVER * capacity) && hk_bin_grow(cache, class);
    cache->served_at_turn[class] = (uint32_t)bin->served;
    return grown;
}
