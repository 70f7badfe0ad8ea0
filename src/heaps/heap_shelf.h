/* Heap shelf: the array of a thread's caches, by the number of the heap.
 *
 * Owns       what a cache consists of (heap_cache.h has what is done with it), and the memory of the arrays: those of more than 4096 numbers wait on lists for the next thread that needs one.
 * Invariant  a number without a cache has hk_no_cache, which misses, as hits of a cache that is shut do.
 * Threads    a shelf: its thread. The lists: any. */
#ifndef HK_HEAP_SHELF_H
#define HK_HEAP_SHELF_H

#include "heaps/heap_state.h"

struct hk_heap_bin {
    void **top, **limit; /* the newest item; the highest value of top */
    uint64_t served;     /* blocks that malloc has taken */
    void **base;         /* *base is NULL */
};
_Static_assert(sizeof(struct hk_heap_bin) == HK_CLASS_BYTES, "page map entries carry offsets of bins");

/* The first arrays of adjacent classes lie together. */
enum { HK_HEAP_GROUP = 8, HK_HEAP_GROUPS = (HK_FINE_CLASSES + HK_HEAP_GROUP - 1) / HK_HEAP_GROUP };

struct hk_heap_shelf;

struct hk_heap_cache {
    void *no_top, *no_limit;              /* NULL: the bin of mark 0, that of pages without a slab, is full */
    _Atomic(struct hk_heap_cache *) xhit; /* where hits go: itself while it is open, else hk_no_cache */
    struct hak_heap *heap;
    struct hk_heap_bin bins[HK_FINE_CLASSES];
    uint8_t turns[HK_FINE_CLASSES]; /* misses and overflows of the bin at its capacity */
    uint64_t served_when_aged;      /* blocks that its bins had served when the shelf was last aged */
    void **groups[HK_HEAP_GROUPS];  /* the first arrays of the bins */
    struct hk_heap_shelf *shelf;
    /* under the heap's lock */
    uint64_t generation; /* that of the heap when the cache came onto its list; 0: it never did */
    struct hk_heap_cache *next, *prev;
};
_Static_assert(offsetof(struct hk_heap_cache, bins) == HK_CLASS_BYTES,
               "hk_mark_of_class() of a class leads to its bin");

/* Of each thread, by the number of the heap; hk_no_cache where there is none. All zeros: no cache. */
struct hk_heap_shelf {
    struct hk_heap_cache **caches;
    uint32_t size;
    uint32_t reach;         /* size, as a distance of page map entries from HK_ENTRY_HEAPS */
    uint32_t age_at;        /* the number that hk_heap_shelf_age() goes on with */
    _Atomic uint32_t xbusy; /* 1 while a hit uses one of its caches */
};

/* Its bins are empty and full. */
extern struct hk_heap_cache hk_no_cache;
extern void *hk_no_heap_items[1];
/* A shut cache with bins that have no arrays. */
void hk_heap_cache_init(struct hk_heap_cache *cache);

/* The place of a number, which the shelf has from here on; NULL if memory is refused. */
struct hk_heap_cache **hk_heap_shelf_place(struct hk_heap_shelf *shelf, uint32_t index);
/* Frees the array. */
void hk_heap_shelf_drop(struct hk_heap_shelf *shelf);

#endif
