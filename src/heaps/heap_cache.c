#include "heaps/heap_cache.h"

#include <string.h>

#include "base/bits.h"
#include "span/meta.h"

enum {
    FIRST_SLOTS = 8, /* of the first array of a bin; one is for the NULL at its bottom */
    ARRAY_GROWTH = 4,
    MOST_SLOTS = 128,
    TURNS_TO_GROW = 3,
    AGED_AT_ONCE = 64,
};
#define BIN_BYTES (16 * HK_KIB) /* of blocks in a bin; one block, if it is larger */

static void *no_heap_items[1];

static size_t items_of(const struct hk_heap_bin *bin) { return (size_t)(bin->top - bin->base); }
static size_t capacity_of(const struct hk_heap_bin *bin) { return (size_t)(bin->limit - bin->base); }
static bool has_items_array(const struct hk_heap_bin *bin) { return bin->base != no_heap_items; }

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
    bin->base = bin->top = bin->limit = no_heap_items;
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

/* A miss or an overflow: a bin that has them often grows. */
static struct hk_heap_bin *bin_in_need(struct hk_heap_cache *cache, unsigned class)
{
    struct hk_heap_bin *bin = &cache->bins[class];
    if (!has_items_array(bin) || ++cache->turns[class] > TURNS_TO_GROW)
        grow_bin(cache, class);
    return bin;
}

static struct hk_heap_cache *new_heap_cache(struct hk_heap_shelf *shelf, struct hak_heap *heap)
{
    struct hk_heap_cache *cache = hk_meta_alloc(sizeof *cache);
    if (cache == NULL)
        return NULL;
    for (unsigned class = 0; class < HK_FINE_CLASSES; class ++)
        cache->bins[class].base = cache->bins[class].top = cache->bins[class].limit = no_heap_items;
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
static bool enter_heap(struct hk_heap_cache *cache, struct hak_heap *heap)
{
    for (unsigned class = 0; class < HK_FINE_CLASSES; class ++) {
        cache->bins[class].top = cache->bins[class].base;
        cache->bins[class].served = 0;
    }
    hk_heap_lock(heap);
    bool open = hk_heap_is_open(heap);
    if (open) {
        cache->generation = hk_load(heap->xgeneration);
        cache->prev = NULL;
        cache->next = heap->caches;
        if (cache->next != NULL)
            cache->next->prev = cache;
        heap->caches = cache;
    }
    hk_heap_unlock(heap);
    return open;
}

/* The thread's cache of the heap; NULL if the heap is closed, memory is refused, or the thread has no shelf. */
static struct hk_heap_cache *cache_for(struct hk_heap_shelf *shelf, struct hak_heap *heap)
{
    if (shelf == NULL)
        return NULL;
    struct hk_heap_cache *cache = hk_heap_cache_of(shelf, heap);
    if (HK_LIKELY(cache != NULL))
        return cache;
    struct hk_heap_cache **place = hk_heap_shelf_place(shelf, heap->index);
    if (place == NULL)
        return NULL;
    cache = *place != &hk_no_cache ? *place : new_heap_cache(shelf, heap);
    if (cache == NULL)
        return NULL;
    *place = cache;
    return enter_heap(cache, heap) ? cache : NULL;
}

static void *take_without_cache(struct hak_heap *heap, unsigned class, bool *by_limit)
{
    void *block = NULL;
    *by_limit = false;
    hk_heap_lock(heap);
    if (hk_heap_is_open(heap) && hk_heap_take(heap, class, &block + 1, 1, by_limit) != 0)
        heap->served++;
    hk_heap_unlock(heap);
    return block;
}

/* Half a bin at a time, written to the bin where it will stand. */
void *hk_heap_refill(struct hk_heap_shelf *shelf, struct hak_heap *heap, unsigned class, bool *by_limit)
{
    struct hk_heap_cache *cache = cache_for(shelf, heap);
    struct hk_heap_bin *bin = cache != NULL ? bin_in_need(cache, class) : NULL;
    if (bin == NULL || !has_items_array(bin))
        return take_without_cache(heap, class, by_limit);
    if (items_of(bin) > 0) /* the heap was reset, or the call did not try the bin */
        return hk_heap_pop(cache, class * HK_CLASS_BYTES);
    unsigned want = (unsigned)(capacity_of(bin) + 1) / 2;
    *by_limit = false;
    hk_heap_lock(heap);
    unsigned got = hk_heap_take(heap, class, bin->base + 1 + want, want, by_limit);
    hk_heap_unlock(heap);
    if (got < want)
        memmove(bin->base + 1, bin->base + 1 + (want - got), got * sizeof *bin->base);
    bin->top = bin->base + got;
    return got != 0 ? hk_heap_pop(cache, class * HK_CLASS_BYTES) : NULL;
}

/* The oldest n blocks of a bin go back. Another thread may have ended the heap meanwhile, if this thread does not use it any more. */
static void flush_bin(struct hk_heap_cache *cache, struct hk_heap_bin *bin, size_t n)
{
    struct hak_heap *heap = cache->heap;
    hk_heap_lock(heap);
    if (cache->generation == hk_load(heap->xgeneration))
        hk_heap_put(heap, bin->base + 1, (unsigned)n);
    hk_heap_unlock(heap);
    memmove(bin->base + 1, bin->base + 1 + n, (items_of(bin) - n) * sizeof *bin->base);
    bin->top -= n;
}

void hk_heap_keep(struct hk_heap_shelf *shelf, struct hak_heap *heap, unsigned class, void *block)
{
    struct hk_heap_cache *cache = cache_for(shelf, heap);
    size_t offset = class * HK_CLASS_BYTES;
    if (cache != NULL && hk_heap_push(cache, offset, block))
        return;
    struct hk_heap_bin *bin = cache != NULL ? bin_in_need(cache, class) : NULL;
    if (bin != NULL && has_items_array(bin)) {
        if (HK_UNLIKELY(items_of(bin) > 0) && HK_UNLIKELY(*bin->top == block))
            hk_invalid_pointer(HK_CALL_FREE, "block already free", block);
        if (items_of(bin) == capacity_of(bin))
            flush_bin(cache, bin, (items_of(bin) + 1) / 2);
        (void)hk_heap_push(cache, offset, block);
        return;
    }
    hk_heap_lock(heap);
    hk_heap_put(heap, &block, 1);
    hk_heap_unlock(heap);
}

static void flush_heap_cache(struct hk_heap_cache *cache)
{
    struct hak_heap *heap = cache->heap;
    hk_heap_lock(heap);
    bool valid = cache->generation == hk_load(heap->xgeneration);
    for (unsigned class = 0; class < HK_FINE_CLASSES; class ++) {
        struct hk_heap_bin *bin = &cache->bins[class];
        if (bin->top != bin->base && valid)
            hk_heap_put(heap, bin->base + 1, (unsigned)items_of(bin));
        bin->top = bin->base;
    }
    hk_heap_unlock(heap);
}

void hk_heap_shrink(struct hk_heap_shelf *shelf, struct hak_heap *heap)
{
    struct hk_heap_cache *cache = shelf != NULL ? hk_heap_cache_of(shelf, heap) : NULL;
    if (cache != NULL)
        flush_heap_cache(cache);
    hk_heap_lock(heap);
    hk_heap_release_empty(heap);
    hk_heap_unlock(heap);
}

void hk_heap_shelf_shrink(struct hk_heap_shelf *shelf)
{
    for (uint32_t at = 0; at < shelf->size; at++)
        if (shelf->caches[at] != &hk_no_cache)
            hk_heap_shrink(shelf, shelf->caches[at]->heap);
}

/* From its heap's list, if the heap is still the same. */
static void leave_heap(struct hk_heap_cache *cache)
{
    struct hak_heap *heap = cache->heap;
    hk_heap_lock(heap);
    if (cache->generation == hk_load(heap->xgeneration)) {
        for (unsigned class = 0; class < HK_FINE_CLASSES; class ++)
            heap->served += cache->bins[class].served;
        if (cache->next != NULL)
            cache->next->prev = cache->prev;
        if (cache->prev != NULL)
            cache->prev->next = cache->next;
        else
            heap->caches = cache->next;
    }
    hk_heap_unlock(heap);
}

static void end_heap_cache(struct hk_heap_shelf *shelf, uint32_t at)
{
    struct hk_heap_cache *cache = shelf->caches[at];
    shelf->caches[at] = &hk_no_cache;
    flush_heap_cache(cache);
    leave_heap(cache);
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
    if (cache->generation != hk_load(cache->heap->xgeneration))
        end_heap_cache(shelf, at);
    else if (served == cache->served_when_aged)
        flush_heap_cache(cache);
    else
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

/* Other threads move `top` meanwhile, within their arrays. */
HK_READS_SHARED_WORD static void count_heap_cache(const struct hk_heap_cache *cache, struct hk_heap_cached *sum)
{
    for (unsigned class = 0; class < HK_FINE_CLASSES; class ++) {
        const struct hk_heap_bin *bin = &cache->bins[class];
        size_t n = (size_t)(*(void **const volatile *)&bin->top - *(void **const volatile *)&bin->base);
        n = n < MOST_SLOTS ? n : 0; /* its array was just replaced */
        sum->blocks += n;
        sum->bytes += n * hk_classes[class].size;
        sum->served += *(const volatile uint64_t *)&bin->served;
    }
    sum->caches++;
}

struct hk_heap_cached hk_heap_cached(const struct hak_heap *heap)
{
    struct hk_heap_cached sum = {0, 0, 0, 0};
    for (const struct hk_heap_cache *cache = heap->caches; cache != NULL; cache = cache->next)
        count_heap_cache(cache, &sum);
    return sum;
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
