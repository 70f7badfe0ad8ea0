/* Fills and empties a thread's cache of a user heap. Recalls blocks from other threads' caches when the heap's limit refuses memory. */
#include "heaps/heap_cache.h"
#include "span/meta.h"

enum {
    FIRST_SLOTS = 8, /* slots of a bin's first array; the lowest slot of an array holds NULL */
    ARRAY_GROWTH = 4,
    MOST_SLOTS = 128,
    TURNS_TO_GROW = 3, /* a bin grows after more than 3 misses and overflows */
    AGED_AT_ONCE = 64, /* most places of the shelf that one aging visits */
};
#define BIN_BYTES (16 * HK_KIB) /* most bytes of blocks in a bin; a bin of larger blocks holds a single block */
#define ARRAYS_OF_GROUP (HK_HEAP_GROUP * FIRST_SLOTS * sizeof(void *))

/* Shelf arrays of more than FREED_TO places are kept on a list for reuse, because hk_meta_free() accepts only up to 32 KiB. */
enum { LEAST_SHELF = 16, FREED_TO = 4096 };

struct hk_heap_cache hk_no_cache HK_COLD_DATA;
static void *no_heap_items[1];

static void init_shut(struct hk_heap_cache *cache)
{
    for (unsigned class = 0; class < HK_FINE_CLASSES; class ++)
        cache->bins[class].base = cache->bins[class].top = cache->bins[class].limit = no_heap_items;
    hk_store(cache->xhit, &hk_no_cache);
}

/* Initializes hk_no_cache at run time, so that processes without heaps touch no page of hk_no_cache. The caller holds a heap's lock. Fork takes all
 * locks of heaps, so no child finds hk_no_cache half initialized. */
static void make_no_cache(void)
{
    static _Atomic uint32_t xstage; /* 0: not begun, 1: begun, 2: done */
    uint32_t none = 0;
    if (hk_replace(xstage, &none, 1, memory_order_relaxed)) {
        init_shut(&hk_no_cache);
        hk_store_release(xstage, 2);
    }
    while (hk_load_acquire(xstage) != 2)
        hk_os_pause();
}

struct shelf_array {
    struct shelf_array *next;
    uint32_t size;
};
static _Atomic(struct shelf_array *) xunused_arrays HK_COLD_DATA;

static void keep_unused_array(struct shelf_array *array)
{
    array->next = hk_load(xunused_arrays);
    while (!hk_replace(xunused_arrays, &array->next, array, memory_order_release))
        continue;
}

/* Returns an array of `size` places. Takes the whole list of unused arrays, keeps one of this size, and puts the others back. A pop of the first
 * array would be unsafe, because other threads may pop it, change the list and push it back before the pop's exchange (ABA). */
static void *array_for_shelf(uint32_t size)
{
    if (size <= FREED_TO)
        return hk_meta_alloc(size * sizeof(struct hk_heap_cache *));
    struct shelf_array *found = NULL, *all = atomic_exchange_explicit(&xunused_arrays, NULL, memory_order_acquire);
    for (struct shelf_array *next; all != NULL; all = next) {
        next = all->next;
        if (found == NULL && all->size == size)
            found = all;
        else
            keep_unused_array(all);
    }
    return found != NULL ? found : hk_meta_pages(size * sizeof(struct hk_heap_cache *));
}

static void drop_shelf(struct hk_heap_shelf *shelf)
{
    uint32_t size = shelf->size;
    void *array = shelf->caches;
    shelf->caches = NULL;
    shelf->size = shelf->reach = 0;
    hk_store(shelf->xbusy, 0); /* the shelf's thread may have been killed in a hit */
    if (size > FREED_TO) {
        ((struct shelf_array *)array)->size = size;
        keep_unused_array(array);
    } else if (size > 0)
        hk_meta_free(array, size * sizeof(struct hk_heap_cache *));
}

/* Returns the place of the cache of heap number `index`. Enlarges the shelf if it has no such place. Returns NULL if memory is refused. */
static struct hk_heap_cache **place_on_shelf(struct hk_heap_shelf *shelf, uint32_t index)
{
    if (HK_LIKELY(index < shelf->size))
        return &shelf->caches[index];
    uint32_t size = (uint32_t)hk_max(hk_pow2_from(index + 1), LEAST_SHELF);
    struct hk_heap_cache **caches = array_for_shelf(size);
    if (caches == NULL)
        return NULL;
    make_no_cache();
    for (uint32_t at = 0; at < size; at++)
        caches[at] = at < shelf->size ? shelf->caches[at] : &hk_no_cache;
    drop_shelf(shelf);
    shelf->caches = caches;
    shelf->size = size;
    shelf->reach = size << HK_ENTRY_OWNER_SHIFT;
    return &shelf->caches[index];
}

static size_t items_of(const struct hk_heap_bin *bin) { return (size_t)(bin->top - bin->base); }
static size_t capacity_of(const struct hk_heap_bin *bin) { return (size_t)(bin->limit - bin->base); }

/* Returns how many blocks a bin of the class may hold if its array has `slots` slots. */
static size_t most_in(unsigned class, size_t slots)
{
    return hk_min(slots - 1, hk_max(BIN_BYTES / hk_classes[class].size, 1));
}

static size_t slots_of(const struct hk_heap_bin *bin)
{
    size_t slots = FIRST_SLOTS;
    while (slots - 1 < capacity_of(bin))
        slots *= ARRAY_GROWTH;
    return hk_min(slots, MOST_SLOTS);
}

static void free_array(const struct hk_heap_bin *bin)
{
    if (capacity_of(bin) >= FIRST_SLOTS)
        hk_meta_free(bin->base, slots_of(bin) * sizeof(void *));
}

/* Gives a bin its first array or a larger array. Leaves the bin as it is if its capacity is the largest, or memory is refused. The first arrays of 8
 * adjacent classes are allocated together, because programs often use such classes together. They are freed with the cache. */
static void grow_bin(struct hk_heap_cache *cache, unsigned class)
{
    struct hk_heap_bin *bin = &cache->bins[class];
    void ***group = &cache->groups[class / HK_HEAP_GROUP], **array = NULL;
    size_t slots = capacity_of(bin) > 0 ? hk_min(slots_of(bin) * ARRAY_GROWTH, MOST_SLOTS) : FIRST_SLOTS,
           most = most_in(class, slots), n = items_of(bin);
    cache->turns[class] = 0;
    if (most <= capacity_of(bin))
        return;
    if (slots != FIRST_SLOTS)
        array = hk_meta_alloc(slots * sizeof *array);
    else if (*group != NULL || (*group = hk_meta_alloc(ARRAYS_OF_GROUP)) != NULL)
        array = *group + class % HK_HEAP_GROUP * FIRST_SLOTS;
    if (array == NULL)
        return;
    if (capacity_of(bin) > 0) {
        memcpy(array + 1, bin->base + 1, n * sizeof *array);
        free_array(bin);
    }
    *bin = (struct hk_heap_bin){array + n, array + most, bin->served, array};
}

/* Returns the class's bin, which was empty or full. Enlarges the bin if this happens often. Returns NULL if memory for its first array is refused. */
static struct hk_heap_bin *bin_in_need(struct hk_heap_cache *cache, unsigned class)
{
    struct hk_heap_bin *bin = &cache->bins[class];
    if (HK_LIKELY(capacity_of(bin) > 0) && HK_LIKELY(++cache->turns[class] <= TURNS_TO_GROW))
        return bin;
    grow_bin(cache, class);
    return capacity_of(bin) > 0 ? bin : NULL;
}

static HK_NOINLINE struct hk_heap_cache *open_cache_locked(struct hk_heap_shelf *shelf, struct hak_heap *heap)
{
    bool may = shelf != NULL && heap->has_caches && !hk_load(heap->xsampled) && hk_heap_is_open(heap);
    struct hk_heap_cache **place = may ? place_on_shelf(shelf, heap->index) : NULL, *cache;
    if (place == NULL)
        return NULL;
    if (*place == &hk_no_cache) {
        if ((cache = hk_meta_alloc(sizeof *cache)) == NULL)
            return NULL;
        init_shut(cache);
        cache->heap = heap;
        cache->shelf = shelf;
        *place = cache;
    }
    cache = *place;
    if (cache->generation != hk_load(heap->xgeneration)) { /* the blocks of an earlier generation are gone */
        for (struct hk_heap_bin *bin = cache->bins; bin < cache->bins + HK_FINE_CLASSES; bin++) {
            bin->top = bin->base;
            bin->served = 0;
        }
        cache->generation = hk_load(heap->xgeneration);
        HK_HEAP_LIST_PUSH(&heap->caches, cache);
    }
    hk_store(cache->xhit, cache);
    return cache;
}

/* Returns the thread's cache of the heap, opened if it was shut. Returns NULL if the heap has no caches, memory is refused, or `shelf` is NULL. */
static struct hk_heap_cache *cache_for_locked(struct hk_heap_shelf *shelf, struct hak_heap *heap)
{
    if (HK_LIKELY(shelf != NULL) && HK_LIKELY(heap->index < shelf->size) &&
        HK_LIKELY(hk_load(shelf->caches[heap->index]->xhit) != &hk_no_cache))
        return shelf->caches[heap->index];
    return open_cache_locked(shelf, heap);
}

static void flush_locked(struct hk_heap_cache *cache)
{
    bool valid = cache->generation == hk_load(cache->heap->xgeneration);
    for (struct hk_heap_bin *bin = cache->bins; bin < cache->bins + HK_FINE_CLASSES; bin++) {
        if (bin->top != bin->base && valid)
            hk_heap_put(cache->heap, bin->base + 1, (unsigned)items_of(bin));
        bin->top = bin->base;
    }
}

/* Adds the blocks and bytes of a cache to the sum. The cache's thread may change `top` at the same time. */
HK_READS_SHARED_WORD static void count_heap_cache(const struct hk_heap_cache *cache, struct hk_heap_cached *sum)
{
    for (unsigned class = 0; class < HK_FINE_CLASSES; class ++) {
        const struct hk_heap_bin *bin = &cache->bins[class];
        size_t n = (size_t)(*(void **const volatile *)&bin->top - *(void **const volatile *)&bin->base);
        n = n < MOST_SLOTS ? n : 0; /* 0 if another thread is replacing the array */
        sum->blocks += n;
        sum->bytes += n * hk_classes[class].size;
        sum->served += *(const volatile uint64_t *)&bin->served;
    }
    sum->caches++;
}

/* Returns the number of blocks that the calling thread's cache has handed out. Reads little memory, because each aging calls this function. */
static uint64_t served_by(const struct hk_heap_cache *cache)
{
    uint64_t served = 0;
    for (unsigned class = 0; class < HK_FINE_CLASSES; class ++)
        served += cache->bins[class].served;
    return served;
}

static bool comes_out_of_hit(const struct hk_heap_shelf *shelf, unsigned *waits)
{
    for (; hk_load_acquire(shelf->xbusy) != 0; --*waits) {
        if (*waits == 0)
            return false;
        hk_os_pause();
    }
    return true;
}

void hk_heap_recall_locked(const struct hk_heap_shelf *own, struct hak_heap *heap)
{
    unsigned waits = HK_PAUSES_A_SECOND / 10;
    bool any = false;
    for (struct hk_heap_cache *cache = heap->caches; cache != NULL; cache = cache->next) {
        struct hk_heap_cached held = {0};
        count_heap_cache(cache, &held);
        if (cache->shelf != own && held.blocks > 0) {
            hk_store(cache->xhit, &hk_no_cache);
            any = true;
        }
    }
    bool reaches = any && hk_os.fence_threads();
    for (struct hk_heap_cache *cache = heap->caches; cache != NULL; cache = cache->next)
        if (cache->shelf == own || (reaches && hk_load(cache->xhit) != cache && comes_out_of_hit(cache->shelf, &waits)))
            flush_locked(cache);
    hk_heap_release_empty(heap);
}

/* Returns a block. First fills the bin to half of its capacity if the bin is empty. If the limit refuses a new slab, recalls the blocks in caches,
 * which may empty other slabs, and tries again. */
static void *refill_locked(struct hk_heap_shelf *shelf, struct hak_heap *heap, unsigned class, bool *by_limit)
{
    struct hk_heap_cache *cache = class < HK_FINE_CLASSES ? cache_for_locked(shelf, heap) : NULL;
    struct hk_heap_bin *bin = cache != NULL ? bin_in_need(cache, class) : NULL;
    void *block = NULL, **first = bin != NULL ? bin->base + 1 : &block;
    unsigned want = bin != NULL ? (unsigned)(capacity_of(bin) + 1) / 2 : 1;
    /* The bin may have blocks, because a shut cache has no hits, and not every caller has tried a hit. */
    if (bin != NULL && items_of(bin) > 0)
        return hk_heap_pop(cache, class * HK_CLASS_BYTES);
    unsigned got = hk_heap_take(heap, class, first + want, want, by_limit);
    if (HK_UNLIKELY(got == 0) && *by_limit) {
        hk_heap_recall_locked(shelf, heap);
        got = hk_heap_take(heap, class, first + want, want, by_limit);
    }
    if (bin == NULL) {
        heap->served += got;
        return block;
    }
    if (got < want)
        memmove(first, first + (want - got), got * sizeof *first);
    bin->top = bin->base + got;
    return hk_heap_pop(cache, class * HK_CLASS_BYTES);
}

void *hk_heap_refill(struct hk_heap_shelf *shelf, struct hak_heap *heap, unsigned class, bool *by_limit)
{
    *by_limit = false;
    return HK_UNDER(heap->lock, hk_heap_is_open(heap) ? refill_locked(shelf, heap, class, by_limit) : NULL);
}

/* Puts a freed block into the thread's cache. If the bin is full, first moves its older half to the slabs. Returns false if there is no bin. */
static bool keep_locked(struct hk_heap_shelf *shelf, struct hak_heap *heap, unsigned class, void *block)
{
    struct hk_heap_cache *cache = cache_for_locked(shelf, heap);
    size_t offset = class * HK_CLASS_BYTES;
    if (cache == NULL)
        return false;
    if (hk_heap_push(cache, offset, block))
        return true;
    struct hk_heap_bin *bin = bin_in_need(cache, class);
    if (bin == NULL)
        return false;
    size_t items = items_of(bin), half = (items + 1) / 2;
    if (HK_UNLIKELY(items > 0) && HK_UNLIKELY(*bin->top == block))
        hk_invalid_pointer(HK_CALL_FREE, HK_TEXT_already_free, block);
    if (items == capacity_of(bin)) {
        hk_heap_put(heap, bin->base + 1, (unsigned)half);
        memmove(bin->base + 1, bin->base + 1 + half, (items - half) * sizeof *bin->base);
        bin->top -= half;
    }
    return hk_heap_push(cache, offset, block);
}

void hk_heap_keep(struct hk_heap_shelf *shelf, struct hak_heap *heap, unsigned class, void *block)
{
    hk_lock(heap->lock);
    if (class >= HK_FINE_CLASSES || !keep_locked(shelf, heap, class, block))
        hk_heap_put(heap, &block, 1);
    hk_unlock(heap->lock);
}

void hk_heap_shelf_shrink(struct hk_heap_shelf *shelf)
{
    for (uint32_t at = 0; at < shelf->size; at++)
        if (shelf->caches[at] != &hk_no_cache) {
            struct hak_heap *heap = shelf->caches[at]->heap;
            hk_lock(heap->lock);
            flush_locked(shelf->caches[at]);
            hk_heap_release_empty(heap);
            hk_unlock(heap->lock);
        }
}

static void end_heap_cache(struct hk_heap_shelf *shelf, uint32_t at)
{
    struct hk_heap_cache *cache = shelf->caches[at];
    struct hak_heap *heap = cache->heap;
    shelf->caches[at] = &hk_no_cache;
    hk_lock(heap->lock);
    flush_locked(cache);
    if (cache->generation == hk_load(heap->xgeneration)) {
        heap->served += served_by(cache);
        HK_HEAP_LIST_REMOVE(&heap->caches, cache);
    }
    hk_unlock(heap->lock);
    for (unsigned group = 0; group < HK_HEAP_GROUPS; group++) {
        if (cache->groups[group] == NULL)
            continue; /* no bin of the group has an array */
        unsigned class = group * HK_HEAP_GROUP, end = (unsigned)hk_min(class + HK_HEAP_GROUP, HK_FINE_CLASSES);
        for (; class < end; class ++)
            free_array(&cache->bins[class]);
        hk_meta_free(cache->groups[group], ARRAYS_OF_GROUP);
    }
    hk_meta_free(cache, sizeof *cache);
}

void hk_heap_shelf_age(struct hk_heap_shelf *shelf)
{
    for (unsigned n = 0; n < AGED_AT_ONCE && n < shelf->size; n++) {
        uint32_t at = shelf->age_at < shelf->size ? shelf->age_at : 0;
        struct hk_heap_cache *cache = shelf->caches[at];
        shelf->age_at = at + 1;
        if (cache == &hk_no_cache)
            continue;
        if (cache->generation != hk_load(cache->heap->xgeneration)) {
            end_heap_cache(shelf, at);
            continue;
        }
        uint64_t served = served_by(cache);
        if (served == cache->served_when_aged) {
            hk_lock(cache->heap->lock);
            flush_locked(cache);
            hk_unlock(cache->heap->lock);
        }
        cache->served_when_aged = served;
    }
}

void hk_heap_shelf_end(struct hk_heap_shelf *shelf)
{
    for (uint32_t at = 0; at < shelf->size; at++)
        if (shelf->caches[at] != &hk_no_cache)
            end_heap_cache(shelf, at);
    drop_shelf(shelf);
}

struct hk_heap_cached hk_heap_cached(const struct hak_heap *heap)
{
    struct hk_heap_cached sum = {0};
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

void hk_heap_set_sampled_locked(struct hak_heap *heap, bool sampled)
{
    hk_store(heap->xsampled, sampled);
    for (struct hk_heap_cache *cache = sampled ? heap->caches : NULL; cache != NULL; cache = cache->next)
        hk_store(cache->xhit, &hk_no_cache);
}

void hk_heaps_set_sampled(bool sampled)
{
    for (uint32_t index = 0; index < hk_heaps_end(); index++) {
        struct hak_heap *heap = hk_heap_by_index(index);
        hk_lock(heap->lock);
        hk_heap_set_sampled_locked(heap, sampled);
        hk_unlock(heap->lock);
    }
}

size_t hk_heap_forget_caches(struct hak_heap *heap, const struct hk_heap_shelf *survivor)
{
    struct hk_heap_cached lost = {0};
    for (struct hk_heap_cache *cache = heap->caches; cache != NULL; cache = cache->next)
        if (cache->shelf != survivor) {
            count_heap_cache(cache, &lost);
            HK_HEAP_LIST_REMOVE(&heap->caches, cache);
        }
    heap->served += lost.served;
    return lost.blocks;
}
