/* Grows, fills and empties the bins of a thread. The thread's byte budget limits how far they grow. */
#include "count/decisions.h"
#include "slab/abandoned.h"
#include "slab/slab_heap.h"
#include "span/meta.h"
#include "span/page_heap.h"
#include "tcache/pool.h"

enum {
    BLOCKS_PER_EPOCH = 1024, /* most blocks that an epoch flushes from idle bins, which takes about 50 us */
    FIRST_CAPACITY = 15,
    BATCH_BYTES = 64 * 1024, /* most bytes of blocks that a fill takes from slabs */
    RECLAIM_SLABS = 2,       /* the depot flushes blocks worth 2 slabs to make room for 1 slab */
    RARE_TURNS = 16,         /* a class is not rare if its bin has run empty or full so often since the last epoch */
    HEAP_PER_BINS = 8, /* rare classes get bins, too, if all bins together have room for at most 1/8 of the heap */
};
#define RARE_FROM (384 * HK_KIB)      /* classes of smaller blocks are never rare */
#define FIRST_BYTES (64 * HK_KIB)     /* most bytes of blocks in a bin of the first capacity */
#define NEW_THREAD_BYTES (1 * HK_KIB) /* replaces FIRST_BYTES while the thread fills its bins from the commons */
#define RECLAIM_FROM (256 * HK_KIB)   /* a depot with fewer bytes is not flushed for a new slab */
#define HEAP_PER_BUDGET (64 * HK_MIB) /* the budget is N times thread_cache if the heap per thread has N times this */

uint64_t hk_bins_random;

static size_t array_bytes(size_t capacity) { return (capacity + 2) * sizeof(void *); }

static size_t largest_capacity(unsigned class)
{
    size_t most = hk_classes[class].cap;
    while (most > hk_options.bin_cap)
        most /= 2;
    return most;
}

bool hk_bin_is_hot(const struct hk_bin *bin, unsigned class) { return hk_bin_capacity(bin) >= largest_capacity(class); }

/* Returns true if the thread is new and takes blocks of this class from the commons. New threads share the commons if there are many threads. */
static bool from_commons(const struct hk_tcache *cache, unsigned class)
{
    return HK_UNLIKELY(cache->new_for > 0) && hk_classes[class].tier != HK_TIER_MEDIUM;
}

/* Returns the next capacity of a bin whose capacity is `now`. A new bin has room for a few blocks, or gets its capacity from the option `bins`. It
 * then grows fourfold. If the budget is used up, a bin does not grow, but a new bin has room for one block. Tiny classes may exceed the budget by
 * half, because larger blocks may have used it up. */
static size_t next_capacity(const struct hk_tcache *cache, unsigned class, size_t now)
{
    size_t size = hk_classes[class].size;
    bool was_new = now < FIRST_CAPACITY && FIRST_CAPACITY * size <= FIRST_BYTES;
    size_t learned = now == 0 && !from_commons(cache, class) ? hk_class_settings[class].first_cap : 0;
    size_t target = learned != 0 ? learned : now == 0 || was_new ? FIRST_CAPACITY : now * 4 + 3;
    size_t most = largest_capacity(class), first_bytes = from_commons(cache, class) ? NEW_THREAD_BYTES : FIRST_BYTES;
    while (target > most || (now == 0 && learned == 0 && target > 1 && target * size > first_bytes))
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
    hk_decision_note(&(struct hk_decision){.ms = cache->ticker.now,
                                           .kind = kind,
                                           .before = before,
                                           .after = hk_bin_capacity(bin),
                                           .seen = {(uint64_t)cache->turns[class], cache->granted, cache->budget},
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
    memcpy(array, bin->base - 1, array_bytes(items));
    if (now > 0)
        hk_meta_free(bin->base - 1, array_bytes(now));
    void **base = array + 1;
    *bin = (struct hk_bin){.top = base + items, .limit = base + capacity, .served = bin->served, .base = base};
    cache->granted += (capacity - now) * hk_classes[class].size;
    if (HK_UNLIKELY(hk_options.profile_save != NULL) && capacity > hk_load(hk_learned.xcapacity[class]))
        hk_store(hk_learned.xcapacity[class], (uint8_t)capacity);
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
    hk_meta_free(bin->base - 1, array_bytes(capacity));
    cache->granted -= capacity * hk_classes[class].size;
    hk_bin_reset(bin);
    note_capacity(cache, class, HK_DECISION_bin_dropped, capacity);
}

/* Returns true if the next fill needs a new slab, the dirty slices are too few for this slab, and the depot has many blocks. Flushing blocks of
 * another class may release their slabs. The new slab then reuses the memory of these slabs, which is still resident. */
static bool could_be_reclaimed(struct hk_tcache *cache, unsigned class)
{
    return cache->depot.bytes >= RECLAIM_FROM && !hk_slab_heap_has_partial(&cache->owner, class) &&
           !hk_abandoned_has(class) && hk_page_heap_idle() < hk_classes[class].slab_bytes;
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
    if (got > 0)
        cache->owner.source = HK_SOURCE_DEPOT;
    else {
        /* Usually fills only half of the bin, so that the next frees find room. */
        unsigned part = ((unsigned)hk_bin_capacity(bin) * (unsigned)HK_POLICY(refill) + 99) / 100;
        unsigned want = (unsigned)hk_max(1, hk_min(part, BATCH_BYTES / hk_classes[class].size));
        void **end = bin->base + 1 + want;
        if (HK_UNLIKELY(could_be_reclaimed(cache, class)))
            hk_depot_reclaim(cache, class, RECLAIM_SLABS * hk_classes[class].slab_bytes);
        if (from_commons(cache, class)) {
            got = hk_abandoned_take(class, HK_COMMONS, end, want);
            cache->new_for -= (int)got;
        }
        if (HK_UNLIKELY(got > 0))
            cache->owner.source = HK_SOURCE_ADOPTED;
        else
            got = hk_slab_heap_alloc(&cache->owner, class, end, want);
        if (cache->owner.source != HK_SOURCE_NEW)
            cache->flushed -= hk_min(cache->flushed, got * hk_classes[class].size);
        if (got < want)
            memmove(bin->base + 1, end - got, got * sizeof(void *));
        if (HK_UNLIKELY(hk_bins_random != 0))
            shuffle(bin->base + 1, got, hk_bins_random ^ bin->served ^ (uintptr_t)bin);
    }
    if (class >= HK_FINE_CLASSES && cache->owner.source == HK_SOURCE_DEPOT)
        HK_COUNT_THREAD(&cache->owner.counts, medium_reused, 1);
    else if (class >= HK_FINE_CLASSES)
        HK_COUNT_THREAD(&cache->owner.counts, medium_refilled, 1);
    bin->top = bin->base + got;
    return got;
}

void hk_bin_flush(struct hk_tcache *cache, unsigned class, size_t n)
{
    struct hk_bin *bin = &cache->hot.bins[class];
    if (!hk_bin_is_hot(bin, class) || !hk_depot_put(&cache->depot, class, bin->base + 1, n)) {
        if (class >= HK_FINE_CLASSES && cache->depot.bytes + n * hk_classes[class].size > HK_POLICY(depot))
            HK_COUNT_THREAD(&cache->owner.counts, depot_full, 1);
        hk_flush(cache, bin->base + 1, (unsigned)n);
        cache->flushed += n * hk_classes[class].size;
    }
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

void hk_bins_check(struct hk_tcache *cache)
{
    if (hk_load(cache->xbusy) != 0)
        return;
    hk_tcache_enter(cache);
    for (unsigned class = 0; class < HK_FINE_CLASSES; class ++) {
        for (void *const *at = cache->hot.bins[class].top; *at != NULL; at--) {
            bool twice = *at == at[-1] || *at == at[-2];
            if (HK_UNLIKELY(twice) || HK_UNLIKELY((uintptr_t)*at % HK_FINE_STEP != 0))
                hk_invalid_pointer(HK_CALL_FLUSH, twice ? HK_TEXT_already_free : HK_TEXT_inside, *at);
        }
    }
    hk_tcache_leave(cache);
}

static size_t heap_a_thread(void) { return hk_page_heap_dirty() / hk_max(1, hk_tcaches_alive()); }
size_t hk_bins_budget(void) { return HK_POLICY(thread_cache) * hk_max(1, heap_a_thread() / HEAP_PER_BUDGET); }

/* Returns true if a site rule holds the bin. While memory is short, no bin is held. */
static bool is_held(const struct hk_tcache *cache, unsigned class)
{
    return class >= HK_FINE_CLASSES && cache->ticker.now < cache->held_until[class - HK_FINE_CLASSES] &&
           hk_policy_phase() != HK_PHASE_TIGHT;
}

void hk_bins_empty(struct hk_tcache *cache, bool held_too)
{
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        if (!held_too && HK_UNLIKELY(is_held(cache, class)))
            continue;
        hk_bin_empty(cache, class);
        drop_bin_array(cache, class);
    }
    hk_depot_empty(cache);
}

void hk_bins_flush_idle(struct hk_tcache *cache)
{
    size_t left = BLOCKS_PER_EPOCH;
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        const struct hk_bin *bin = &cache->hot.bins[class];
        size_t items = hk_bin_items(bin);
        uint32_t seen = items > 0 ? (uint32_t)((uintptr_t)bin->top + (uintptr_t)*bin->top) : 0;
        bool idle = cache->turns[class] == 0 && cache->seen_at_epoch[class] == seen;
        cache->turns[class] = 0;
        cache->seen_at_epoch[class] = seen;
        if (!idle || items > left || is_held(cache, class))
            continue;
        left -= items;
        cache->seen_at_epoch[class] = 0;
        (items > 0 ? hk_bin_empty : drop_bin_array)(cache, class);
    }
}

/* Returns true if the class should have no bin yet. Its freed blocks then go back to their slabs, and other classes can use the memory. A block in a bin
 * serves only its own class. If a program uses each of many large classes seldom, one block of each would be most of a small heap. */
static bool is_rare(const struct hk_tcache *cache, unsigned class)
{
    size_t size = hk_classes[class].size;
    return size >= RARE_FROM && cache->turns[class] < RARE_TURNS && hk_class_settings[class].first_cap == 0 &&
           (cache->granted + size) * HEAP_PER_BINS > heap_a_thread();
}

bool hk_bin_grow_if_small(struct hk_tcache *cache, unsigned class)
{
    bool often = ++cache->turns[class] >= (int64_t)HK_POLICY(hot_turns);
    return !HK_UNLIKELY(is_rare(cache, class)) && (often || hk_bin_capacity(&cache->hot.bins[class]) == 0) &&
           hk_bin_grow(cache, class);
}
