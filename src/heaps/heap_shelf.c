/* Holds a thread's caches of user heaps in an array by the number of the heap, and grows the array. */
#include "heaps/heap_cache.h"

#include "os/os.h"
#include "span/meta.h"

/* Metadata frees blocks of up to 32 KiB only. */
enum { LEAST_SHELF = 16, FREED_TO = 4096, SHELF_LISTS = 5 };
_Static_assert(FREED_TO << (SHELF_LISTS - 1) >= HK_HEAPS_MOST, "a list for each larger size");

struct hk_heap_cache hk_no_cache HK_COLD_DATA;
void *hk_no_heap_items[1];

void hk_heap_cache_init(struct hk_heap_cache *cache)
{
    for (unsigned class = 0; class < HK_FINE_CLASSES; class ++)
        cache->bins[class].base = cache->bins[class].top = cache->bins[class].limit = hk_no_heap_items;
    hk_store(cache->xhit, &hk_no_cache);
}

/* Initializes hk_no_cache at run time, so that processes without heaps touch no page for it. Called under some heap's lock, which fork takes, so that no
 * child finds it half done. */
static void make_no_cache(void)
{
    static _Atomic uint32_t xstage; /* 1: begun, 2: done */
    uint32_t none = 0;
    if (HK_LIKELY(hk_load_acquire(xstage) == 2))
        return;
    if (atomic_compare_exchange_strong_explicit(&xstage, &none, 1, memory_order_relaxed, memory_order_relaxed)) {
        hk_heap_cache_init(&hk_no_cache);
        hk_store_release(xstage, 2);
    }
    while (hk_load_acquire(xstage) != 2)
        hk_os_pause();
}
struct shelf_array {
    struct shelf_array *next;
};
static _Atomic(struct shelf_array *) xunused_arrays[SHELF_LISTS] HK_COLD_DATA;

static _Atomic(struct shelf_array *) *unused_arrays(uint32_t size)
{
    return &xunused_arrays[hk_ctz64(size / FREED_TO)];
}

static void keep_unused_array(struct shelf_array *array, uint32_t size)
{
    _Atomic(struct shelf_array *) *list = unused_arrays(size);
    array->next = hk_load(*list);
    while (
        !atomic_compare_exchange_weak_explicit(list, &array->next, array, memory_order_release, memory_order_relaxed))
        continue;
}

/* Takes the whole list for a moment, so that no array can come back in between (ABA). Another thread that finds the list empty takes new memory. */
static void *array_for_shelf(uint32_t size)
{
    if (size <= FREED_TO)
        return hk_meta_alloc(size * sizeof(struct hk_heap_cache *));
    struct shelf_array *first = atomic_exchange_explicit(unused_arrays(size), NULL, memory_order_acquire);
    if (first == NULL)
        return hk_meta_pages(size * sizeof(struct hk_heap_cache *));
    for (struct shelf_array *rest = first->next, *next; rest != NULL; rest = next) {
        next = rest->next;
        keep_unused_array(rest, size);
    }
    return first;
}

void hk_heap_shelf_drop(struct hk_heap_shelf *shelf)
{
    uint32_t size = shelf->size;
    void *array = shelf->caches;
    shelf->caches = NULL;
    shelf->size = shelf->reach = 0;
    hk_store(shelf->xbusy, 0); /* its thread may have been killed in a hit */
    if (size > FREED_TO)
        keep_unused_array(array, size);
    else if (size > 0)
        hk_meta_free(array, size * sizeof(struct hk_heap_cache *));
}

struct hk_heap_cache **hk_heap_shelf_place(struct hk_heap_shelf *shelf, uint32_t index)
{
    if (HK_LIKELY(index < shelf->size))
        return &shelf->caches[index];
    uint32_t size = (uint32_t)hk_max(shelf->size, LEAST_SHELF);
    while (size <= index)
        size *= 2;
    struct hk_heap_cache **caches = array_for_shelf(size);
    if (caches == NULL)
        return NULL;
    make_no_cache();
    for (uint32_t at = 0; at < size; at++)
        caches[at] = at < shelf->size ? shelf->caches[at] : &hk_no_cache;
    hk_heap_shelf_drop(shelf);
    shelf->caches = caches;
    shelf->size = size;
    shelf->reach = size << HK_ENTRY_OWNER_SHIFT;
    return &shelf->caches[index];
}
