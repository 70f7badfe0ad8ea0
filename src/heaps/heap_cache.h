/* A heap cache holds a thread's free blocks of one user heap, in bins. A thread's shelf has a heap cache for each heap that the thread uses.
 *
 *   malloc  The heap's number selects a cache on the thread's shelf. A block is popped from a bin of this cache.
 *   free    The block's page map entry has the heap's number and the class. The block is pushed into the bin that they select.
 *   recall  If the heap's limit refuses memory, a thread shuts the heap's caches of all other threads, makes these threads execute a fence, waits
 *           until none of them is in a hit, and moves the blocks of the caches to the slabs. A shut cache serves no hits.
 *
 * Owns       This file owns the caches, their bins, and the arrays of the shelves. A bin has room for at most 7 blocks at first.
 * Invariant  Blocks in a cache are free. If the heap has another generation than the cache, the blocks no longer exist. A NULL lies below
 *            the lowest item of every bin. A cache is on its heap's list exactly while both have the same generation. Only listed caches are open.
 * Threads    A shelf belongs to one thread. If this thread was killed, another thread ends its tcache, and uses the shelf. While a cache is open, the
 *            shelf's thread uses the bins in hits. While the cache is shut and no hit is under way, the holder of the heap's lock uses the bins.
 * Never      No function writes to the blocks. */
#pragma once

#include "heaps/heap_slabs.h"

struct hk_heap_bin {
    void **top, **limit; /* the newest item; the highest value of top */
    uint64_t served;     /* number of blocks that malloc has taken */
    void **base;         /* *base is NULL */
};
_Static_assert(sizeof(struct hk_heap_bin) == HK_CLASS_BYTES, "page map entries carry offsets of bins");

/* Classes whose first arrays lie together form a group. */
enum { HK_HEAP_GROUP = 8, HK_HEAP_GROUPS = (HK_FINE_CLASSES + HK_HEAP_GROUP - 1) / HK_HEAP_GROUP };

struct hk_heap_cache {
    void *no_top, *no_limit; /* the bin of mark 0, which stands for no slab; both NULL, so it is always full */
    _Atomic(struct hk_heap_cache *) xhit; /* the cache that hits use; hk_no_cache while this cache is shut */
    struct hak_heap *heap;
    struct hk_heap_bin bins[HK_FINE_CLASSES];
    uint8_t turns[HK_FINE_CLASSES]; /* misses and overflows of the bin since the last attempt to enlarge it */
    uint64_t served_when_aged;      /* sum of `served` of all bins at the last aging of this cache */
    void **groups[HK_HEAP_GROUPS];  /* the first arrays of a group of bins; NULL: not allocated */
    struct hk_heap_shelf *shelf;
    /* Only the holder of the heap's lock uses these fields. */
    uint64_t generation; /* generation of the heap when it last listed this cache; 0: never listed */
    struct hk_heap_cache *next, *prev;
};
_Static_assert(offsetof(struct hk_heap_cache, bins) == HK_CLASS_BYTES, "hk_mark_of_class() leads to the class's bin");

/* Each thread has a shelf with a place for each heap's number. A place without a cache points to hk_no_cache. A shelf of zeros has no places. */
struct hk_heap_shelf {
    struct hk_heap_cache **caches;
    uint32_t size;
    uint32_t reach;         /* page map entries below HK_ENTRY_HEAPS + reach have a place on the shelf */
    uint32_t age_at;        /* the number at which hk_heap_shelf_age() continues */
    _Atomic uint32_t xbusy; /* 1 while a hit uses a cache of the shelf */
};

/* Stands for a missing or shut cache. Its bins are both empty and full, so that each call misses. */
extern struct hk_heap_cache hk_no_cache;

/* Announces a hit. A plain store is enough, because a thread that recalls blocks first shuts the cache, and then makes this thread execute a fence.
 * After the fence, either the recalling thread sees `xbusy` set, or this thread sees the cache shut (see hk_heap_recall_locked()). */
HK_INLINE void hk_heap_hit_begin(struct hk_heap_shelf *shelf)
{
    hk_store(shelf->xbusy, 1);
    atomic_signal_fence(memory_order_seq_cst);
}

HK_INLINE void hk_heap_hit_end(struct hk_heap_shelf *shelf) { hk_store_release(shelf->xbusy, 0); }

HK_INLINE struct hk_heap_bin *hk_heap_bin_at(struct hk_heap_cache *cache, size_t offset)
{
    return (struct hk_heap_bin *)(void *)((char *)cache->bins + offset);
}

/* Returns a block, or NULL on a miss. HK_FORGET keeps compilers from computing the bin's address, because each access can add the offset itself. */
HK_INLINE void *hk_heap_pop(struct hk_heap_cache *cache, size_t offset)
{
    void **top = hk_heap_bin_at(cache, offset)->top;
    HK_FORGET(offset);
    void *block = *top;
    HK_AS_RESULT(block);
    if (HK_UNLIKELY(block == NULL))
        return NULL;
    hk_heap_bin_at(cache, offset)->top = top - 1;
    HK_FORGET(offset);
    HK_FORGET(cache);
    hk_heap_bin_at(cache, offset)->served++;
    return block;
}

/* Pushes a block into the bin at the address base + first + offset. `first` is a constant. Returns false if the bin is full. */
HK_INLINE bool hk_heap_push_from(void *base, size_t first, size_t offset, void *block)
{
    void **top = ((struct hk_heap_bin *)(void *)((char *)base + first + offset))->top;
    HK_FORGET(offset);
    HK_FORGET(base);
    if (HK_UNLIKELY(top == ((struct hk_heap_bin *)(void *)((char *)base + first + offset))->limit))
        return false;
    top[1] = block;
    HK_READ_NO_EARLIER(); /* the item is stored before `top`, for the reason given in tcache/hit.h */
    HK_FORGET(offset);
    HK_FORGET(base);
    ((struct hk_heap_bin *)(void *)((char *)base + first + offset))->top = top + 1;
    return true;
}

HK_INLINE bool hk_heap_push(struct hk_heap_cache *cache, size_t offset, void *block)
{
    return hk_heap_push_from(cache, offsetof(struct hk_heap_cache, bins), offset, block);
}

/* Pushes a block. `offset` is the bin's offset, which the block's page map entry holds. If several slabs share the slice, the mark of the block's
 * page tells the class instead. A page without a slab has the mark HK_MARK_NONE, whose bin is always full. Returns false if no bin took the block. */
HK_INLINE bool hk_heap_push_at(struct hk_heap_cache *cache, size_t offset, void *block)
{
    _Atomic uint8_t *mark;
    if (offset != HK_CLASS_SHARED * HK_CLASS_BYTES)
        return HK_LIKELY(offset < HK_FINE_CLASSES * HK_CLASS_BYTES) && hk_heap_push(cache, offset, block);
    if (HK_LIKELY(hk_page_map_has_mark((uintptr_t)block, &mark)))
        return hk_heap_push_from(cache, 0, (size_t)hk_load(*mark) * HK_CLASS_BYTES, block);
    offset = hk_heap_unmarked_offset(block);
    return offset < HK_FINE_CLASSES * HK_CLASS_BYTES && hk_heap_push(cache, offset, block);
}

/* Returns a block after a miss, or if the class has no bins. If it returns NULL, *by_limit says whether the limit refused. `shelf` may be NULL. */
void *hk_heap_refill(struct hk_heap_shelf *shelf, struct hak_heap *heap, unsigned class, bool *by_limit);
/* Frees a block after a miss. If its bin is full, first moves half of the bin to the slabs. If there is no bin, puts the block into its slab. */
void hk_heap_keep(struct hk_heap_shelf *shelf, struct hak_heap *heap, unsigned class, void *block);

/* Moves the blocks in all threads' caches of a heap to their slabs, and releases slabs without live blocks. `own` is the caller's shelf, or NULL.
 * Waits up to a tenth of a second for hits to end. A thread that is still in a hit then, for example because of a signal, keeps its blocks. */
void hk_heap_recall_locked(const struct hk_heap_shelf *own, struct hak_heap *heap);
/* Shuts and unlists the caches of a heap. Called under the heap's lock before a new generation begins, in which cached blocks do not exist. */
void hk_heap_void_caches(struct hak_heap *heap);
/* Returns all blocks on a thread's shelf to the slabs of their heaps, and releases slabs whose blocks are all free. */
void hk_heap_shelf_shrink(struct hk_heap_shelf *shelf);
/* Visits some caches of the shelf. Flushes those that have served no block since the last visit. Frees those whose heap was reset or closed. */
void hk_heap_shelf_age(struct hk_heap_shelf *shelf);
/* Flushes and frees the caches of a thread that ends, and frees the thread's shelf. */
void hk_heap_shelf_end(struct hk_heap_shelf *shelf);

/* If `sampled` is true, shuts the caches of a heap, or of all heaps, until a later call with false, or until the program resets the heap. Aging flushes a
 * shut cache, as any idle one. The caller of the first function holds the heap's lock. */
void hk_heap_set_sampled_locked(struct hak_heap *heap, bool sampled);
void hk_heaps_set_sampled(bool sampled);

/* The number and bytes of the blocks in all caches of a heap, the number of caches, and the number of blocks that the caches have served. */
struct hk_heap_cached {
    size_t blocks, bytes, caches;
    uint64_t served;
};
struct hk_heap_cached hk_heap_cached(const struct hak_heap *heap);
/* Forgets the heap's caches of threads that do not exist in the fork child. The blocks in these caches are lost. Returns the number of blocks. */
size_t hk_heap_forget_caches(struct hak_heap *heap, const struct hk_heap_shelf *survivor);
