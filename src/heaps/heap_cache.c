/* Fills and empties a thread's cache of a user heap, and recalls blocks from other threads' caches when the heap's limit refuses memory. */
#include "heaps/heap_cache.h"

#include <string.h>

#include "base/bits.h"
#include "os/os.h"
#include "span/meta.h"

enum {
    FIRST_SLOTS = 8, /* of the first array of a bin; one is for the NULL at its bottom */
    ARRAY_GROWTH = 4,
    MOST_SLOTS = 128,
    TURNS_TO_GROW = 3,
    AGED_AT_ONCE = 64,
};
#define BIN_BYTES (16 * HK_KIB) /* of blocks in a bin; one block, if it is larger */

static size_t items_of(const struct hk_heap_bin *bin) { return (size_t)(bin->top - bin->base); }
static size_t capacity_of(const struct hk_heap_bin *bin) { return (size_t)(bin->limit - bin->base); }
static bool has_items_array(const struct hk_heap_bin *bin) { return bin->base != hk_no_heap_items; }

/* The most blocks that a bin of the class may hold in an array of so many slots. */
static size_t most_in(unsigned class, size_t slots)
{
    return hk_min(slots - 1, hk_max(BIN_BYTES / hk_classes[class].size, 1));
}

/* The fewest that hold the capacity. */
static size_t slots_of(const struct hk_heap_bin *bin)
{
    size_t slots = FIRST_SLOTS;
    while (slots - 1 < capacity_of(bin))
        slots *= ARRAY_GROWTH;
    return hk_min(slots, MOST_SLOTS);
}

/* First arrays are parts of groups, and stay the cache's. */
static void drop_array(struct hk_heap_bin *bin)
{
    if (capacity_of(bin) >= FIRST_SLOTS)
        hk_meta_free(bin->base, slots_of(bin) * sizeof(void *));
    bin->base = bin->top = bin->limit = hk_no_heap_items;
}

/* Of classes that lie together, which programs use together. */
static void **first_array(struct hk_heap_cache *cache, unsigned class)
{
    void ***group = &cache->groups[class / HK_HEAP_GROUP];
    if (*group == NULL)
        *group = hk_meta_alloc(HK_HEAP_GROUP * FIRST_SLOTS * sizeof **group);
    return *group != NULL ? *group + class % HK_HEAP_GROUP * FIRST_SLOTS : NULL;
}

/* Gives the bin a larger array, or its first. It stays as it is where it may not grow, or memory is refused. */
static void grow_bin(struct hk_heap_cache *cache, unsigned class)
{
    struct hk_heap_bin *bin = &cache->bins[class];
    size_t slots = has_items_array(bin) ? hk_min(slots_of(bin) * ARRAY_GROWTH, MOST_SLOTS) : FIRST_SLOTS,
           n = items_of(bin);
    cache->turns[class] = 0;
    if (most_in(class, slots) <= capacity_of(bin))
        return;
    void **array = slots == FIRST_SLOTS ? first_array(cache, class) : hk_meta_alloc(slots * sizeof *array);
    if (array == NULL)
        return;
    memcpy(array + 1, bin->base + 1, n * sizeof *array);
    drop_array(bin);
    bin->base = array;
    bin->top = array + n;
    bin->limit = array + most_in(class, slots);
}

/* Returns the bin after a miss or an overflow. A bin that has these often grows. NULL if memory for its first array is refused. */
static struct hk_heap_bin *bin_in_need(struct hk_heap_cache *cache, unsigned class)
{
    struct hk_heap_bin *bin = &cache->bins[class];
    if (HK_LIKELY(has_items_array(bin)) && HK_LIKELY(++cache->turns[class] <= TURNS_TO_GROW))
        return bin;
    grow_bin(cache, class);
    return has_items_array(bin) ? bin : NULL;
}

static struct hk_heap_cache *new_heap_cache(struct hk_heap_shelf *shelf, struct hak_heap *heap)
{
    struct hk_heap_cache *cache = hk_meta_alloc(sizeof *cache);
    if (cache == NULL)
        return NULL;
    hk_heap_cache_init(cache);
    cache->heap = heap;
    cache->shelf = shelf;
    return cache;
}

static void drop_heap_cache(struct hk_heap_cache *cache)
{
    for (unsigned class = 0; class < HK_FINE_CLASSES; class ++)
        drop_array(&cache->bins[class]);
    for (unsigned group = 0; group < HK_HEAP_GROUPS; group++)
        if (cache->groups[group] != NULL)
            hk_meta_free(cache->groups[group], HK_HEAP_GROUP * FIRST_SLOTS * sizeof(void *));
    hk_meta_free(cache, sizeof *cache);
}

/* The blocks that it held are gone with their generation. */
static void enter_heap_locked(struct hk_heap_cache *cache)
{
    struct hak_heap *heap = cache->heap;
    for (unsigned class = 0; class < HK_FINE_CLASSES; class ++) {
        cache->bins[class].top = cache->bins[class].base;
        cache->bins[class].served = 0;
    }
    cache->generation = hk_load(heap->xgeneration);
    cache->prev = NULL;
    cache->next = heap->caches;
    if (cache->next != NULL)
        cache->next->prev = cache;
    heap->caches = cache;
}

static HK_NOINLINE struct hk_heap_cache *open_cache_locked(struct hk_heap_shelf *shelf, struct hak_heap *heap)
{
    bool may = shelf != NULL && heap->has_caches && hk_heap_is_open(heap);
    struct hk_heap_cache **place = may ? hk_heap_shelf_place(shelf, heap->index) : NULL;
    if (place == NULL)
        return NULL;
    struct hk_heap_cache *cache = *place != &hk_no_cache ? *place : new_heap_cache(shelf, heap);
    if (cache == NULL)
        return NULL;
    *place = cache;
    if (cache->generation != hk_load(heap->xgeneration))
        enter_heap_locked(cache);
    hk_store(cache->xhit, cache);
    return cache;
}

/* The thread's cache of the heap, open from here on; NULL if the heap has none, memory is refused, or the thread has no shelf. */
static struct hk_heap_cache *cache_for_locked(struct hk_heap_shelf *shelf, struct hak_heap *heap)
{
    if (HK_LIKELY(shelf != NULL) && HK_LIKELY(heap->index < shelf->size) &&
        HK_LIKELY(hk_load(shelf->caches[heap->index]->xhit) != &hk_no_cache))
        return shelf->caches[heap->index];
    return open_cache_locked(shelf, heap);
}

static void put_oldest(struct hk_heap_cache *cache, struct hk_heap_bin *bin, size_t n)
{
    hk_heap_put(cache->heap, bin->base + 1, (unsigned)n);
    memmove(bin->base + 1, bin->base + 1 + n, (items_of(bin) - n) * sizeof *bin->base);
    bin->top -= n;
}

static void flush_locked(struct hk_heap_cache *cache)
{
    bool valid = cache->generation == hk_load(cache->heap->xgeneration);
    for (unsigned class = 0; class < HK_FINE_CLASSES; class ++) {
        struct hk_heap_bin *bin = &cache->bins[class];
        if (bin->top != bin->base && valid)
            hk_heap_put(cache->heap, bin->base + 1, (unsigned)items_of(bin));
        bin->top = bin->base;
    }
}

/* Other threads may move `top` within their arrays at the same time. */
HK_READS_SHARED_WORD static void count_heap_cache(const struct hk_heap_cache *cache, struct hk_heap_cached *sum)
{
    for (unsigned class = 0; class < HK_FINE_CLASSES; class ++) {
        const struct hk_heap_bin *bin = &cache->bins[class];
        size_t n = (size_t)(*(void **const volatile *)&bin->top - *(void **const volatile *)&bin->base);
        n = n < MOST_SLOTS ? n : 0; /* 0 if another thread has just replaced the array */
        sum->blocks += n;
        sum->bytes += n * hk_classes[class].size;
        sum->served += *(const volatile uint64_t *)&bin->served;
    }
    sum->caches++;
}

static bool has_blocks(const struct hk_heap_cache *cache)
{
    struct hk_heap_cached held = {0, 0, 0, 0};
    count_heap_cache(cache, &held);
    return held.blocks > 0;
}

/* Shuts the caches of other threads that have blocks. A thread that finds its cache shut comes for the lock. False if there is none. */
static bool shut_others_locked(const struct hk_heap_shelf *own, struct hak_heap *heap)
{
    bool any = false;
    for (struct hk_heap_cache *cache = heap->caches; cache != NULL; cache = cache->next)
        if (cache->shelf != own && has_blocks(cache)) {
            hk_store(cache->xhit, &hk_no_cache);
            any = true;
        }
    return any;
}

static bool comes_out_of_hit(const struct hk_heap_shelf *shelf, unsigned *waits)
{
    while (hk_load_acquire(shelf->xbusy) != 0) {
        if (*waits == 0)
            return false;
        --*waits;
        hk_os.pause();
    }
    return true;
}

/* Behind the fence, a thread is seen in its hit, or sees its cache shut. */
static void recall_locked(const struct hk_heap_shelf *own, struct hak_heap *heap)
{
    unsigned waits = HK_PAUSES_A_SECOND / 10;
    bool reaches = shut_others_locked(own, heap) && hk_os.fence_threads();
    for (struct hk_heap_cache *cache = heap->caches; cache != NULL; cache = cache->next)
        if (cache->shelf == own || (reaches && !hk_heap_cache_is_open(cache) && comes_out_of_hit(cache->shelf, &waits)))
            flush_locked(cache);
    hk_heap_release_empty(heap);
}

void hk_heap_recall(const struct hk_heap_shelf *own, struct hak_heap *heap)
{
    hk_heap_lock(heap);
    recall_locked(own, heap);
    hk_heap_unlock(heap);
}

/* What the limit refuses may be free in caches. */
static unsigned take_or_recall(const struct hk_heap_shelf *own, struct hak_heap *heap, unsigned class, void **end,
                               unsigned want, bool *by_limit)
{
    unsigned got = hk_heap_take(heap, class, end, want, by_limit);
    if (HK_LIKELY(got != 0) || !*by_limit)
        return got;
    recall_locked(own, heap);
    return hk_heap_take(heap, class, end, want, by_limit);
}

static void *take_past_cache(const struct hk_heap_shelf *own, struct hak_heap *heap, unsigned class, bool *by_limit)
{
    void *block = NULL;
    if (take_or_recall(own, heap, class, &block + 1, 1, by_limit) != 0)
        heap->served++;
    return block;
}

/* Half a bin at a time, written to the bin where it will stand. */
static void *refill_locked(struct hk_heap_shelf *shelf, struct hak_heap *heap, unsigned class, bool *by_limit)
{
    struct hk_heap_cache *cache = class < HK_FINE_CLASSES ? cache_for_locked(shelf, heap) : NULL;
    struct hk_heap_bin *bin = cache != NULL ? bin_in_need(cache, class) : NULL;
    if (bin == NULL)
        return take_past_cache(shelf, heap, class, by_limit);
    if (items_of(bin) > 0) /* the cache was shut, or the call did not try the bin */
        return hk_heap_pop(cache, class * HK_CLASS_BYTES);
    unsigned want = (unsigned)(capacity_of(bin) + 1) / 2;
    unsigned got = take_or_recall(shelf, heap, class, bin->base + 1 + want, want, by_limit);
    if (got < want)
        memmove(bin->base + 1, bin->base + 1 + (want - got), got * sizeof *bin->base);
    bin->top = bin->base + got;
    return got != 0 ? hk_heap_pop(cache, class * HK_CLASS_BYTES) : NULL;
}

void *hk_heap_refill(struct hk_heap_shelf *shelf, struct hak_heap *heap, unsigned class, bool *by_limit)
{
    *by_limit = false;
    hk_heap_lock(heap);
    void *block = hk_heap_is_open(heap) ? refill_locked(shelf, heap, class, by_limit) : NULL;
    hk_heap_unlock(heap);
    return block;
}

/* False without a cache, or room for a bin. */
static bool keep_locked(struct hk_heap_shelf *shelf, struct hak_heap *heap, unsigned class, void *block)
{
    struct hk_heap_cache *cache = cache_for_locked(shelf, heap);
    if (cache == NULL)
        return false;
    size_t offset = class * HK_CLASS_BYTES;
    if (hk_heap_push(cache, offset, block))
        return true;
    struct hk_heap_bin *bin = bin_in_need(cache, class);
    if (bin == NULL)
        return false;
    if (HK_UNLIKELY(items_of(bin) > 0) && HK_UNLIKELY(*bin->top == block))
        hk_invalid_pointer(HK_CALL_FREE, HK_TEXT_already_free, block);
    if (items_of(bin) == capacity_of(bin))
        put_oldest(cache, bin, (items_of(bin) + 1) / 2);
    return hk_heap_push(cache, offset, block);
}

void hk_heap_keep(struct hk_heap_shelf *shelf, struct hak_heap *heap, unsigned class, void *block)
{
    hk_heap_lock(heap);
    if (class >= HK_FINE_CLASSES || !keep_locked(shelf, heap, class, block))
        hk_heap_put(heap, &block, 1);
    hk_heap_unlock(heap);
}

void hk_heap_shelf_shrink(struct hk_heap_shelf *shelf)
{
    for (uint32_t at = 0; at < shelf->size; at++)
        if (shelf->caches[at] != &hk_no_cache) {
            struct hak_heap *heap = shelf->caches[at]->heap;
            hk_heap_lock(heap);
            flush_locked(shelf->caches[at]);
            hk_heap_release_empty(heap);
            hk_heap_unlock(heap);
        }
}

/* From its heap's list, if the heap is still the same. */
static void leave_heap_locked(struct hk_heap_cache *cache)
{
    struct hak_heap *heap = cache->heap;
    if (cache->generation != hk_load(heap->xgeneration))
        return;
    for (unsigned class = 0; class < HK_FINE_CLASSES; class ++)
        heap->served += cache->bins[class].served;
    if (cache->next != NULL)
        cache->next->prev = cache->prev;
    if (cache->prev != NULL)
        cache->prev->next = cache->next;
    else
        heap->caches = cache->next;
}

static void end_heap_cache(struct hk_heap_shelf *shelf, uint32_t at)
{
    struct hk_heap_cache *cache = shelf->caches[at];
    shelf->caches[at] = &hk_no_cache;
    hk_heap_lock(cache->heap);
    flush_locked(cache);
    leave_heap_locked(cache);
    hk_heap_unlock(cache->heap);
    drop_heap_cache(cache);
}

/* Grows while the cache is in use, but for frees alone. */
static uint64_t served_by(const struct hk_heap_cache *cache)
{
    uint64_t served = 0;
    for (unsigned class = 0; class < HK_FINE_CLASSES; class ++)
        served += cache->bins[class].served;
    return served;
}

static void age_cache(struct hk_heap_shelf *shelf, uint32_t at)
{
    struct hk_heap_cache *cache = shelf->caches[at];
    uint64_t served = served_by(cache);
    if (cache->generation != hk_load(cache->heap->xgeneration)) {
        end_heap_cache(shelf, at);
        return;
    }
    if (served == cache->served_when_aged) {
        hk_heap_lock(cache->heap);
        flush_locked(cache);
        hk_heap_unlock(cache->heap);
    }
    cache->served_when_aged = served;
}

void hk_heap_shelf_age(struct hk_heap_shelf *shelf)
{
    for (unsigned n = 0; n < AGED_AT_ONCE && n < shelf->size; n++) {
        uint32_t at = shelf->age_at < shelf->size ? shelf->age_at : 0;
        shelf->age_at = at + 1;
        if (shelf->caches[at] != &hk_no_cache)
            age_cache(shelf, at);
    }
}

void hk_heap_shelf_end(struct hk_heap_shelf *shelf)
{
    for (uint32_t at = 0; at < shelf->size; at++)
        if (shelf->caches[at] != &hk_no_cache)
            end_heap_cache(shelf, at);
    hk_heap_shelf_drop(shelf);
}

struct hk_heap_cached hk_heap_cached(const struct hak_heap *heap)
{
    struct hk_heap_cached sum = {0, 0, 0, 0};
    for (const struct hk_heap_cache *cache = heap->caches; cache != NULL; cache = cache->next)
        count_heap_cache(cache, &sum);
    return sum;
}

void hk_heap_void_caches(struct hak_heap *heap)
{
    heap->served += hk_heap_cached(heap).served;
    for (struct hk_heap_cache *cache = heap->caches; cache != NULL; cache = cache->next)
        hk_store(cache->xhit, &hk_no_cache);
    heap->caches = NULL;
}

size_t hk_heap_forget_caches(struct hak_heap *heap, const struct hk_heap_shelf *survivor)
{
    struct hk_heap_cached before = hk_heap_cached(heap), after = {0, 0, 0, 0};
    struct hk_heap_cache *mine = NULL;
    for (struct hk_heap_cache *cache = heap->caches; cache != NULL; cache = cache->next)
        if (cache->shelf == survivor)
            mine = cache;
    if (mine != NULL) {
        mine->next = mine->prev = NULL;
        count_heap_cache(mine, &after);
    }
    heap->caches = mine;
    heap->served += before.served - after.served;
    return before.blocks - after.blocks;
}
