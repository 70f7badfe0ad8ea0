/* A heap cache holds a thread's free blocks of one user heap, in bins. A thread's shelf has a heap cache for each heap that the thread uses.
 *
 *   malloc: heap's number -> cache on the thread's shelf, if it is open -> bin: pop     free: page map entry -> the same: push
 *   the limit refuses: a thread shuts the heap's caches of all other threads, makes these threads execute a fence, waits until no such
 *                      thread is in a hit, and moves the cached blocks to the slabs
 *
 * Owns       This file owns the caches, their bins, and the arrays of the shelves. A place without a cache points to hk_no_cache, so that each call
 *            misses. A bin holds at most 7 blocks at first, and grows if it misses often.
 * Invariant  Blocks in a cache are free. If the heap has another generation than the cache, the blocks no longer exist. A NULL lies below
 *            the lowest item of every bin. A cache is on its heap's list exactly while both have the same generation. Only listed caches are open.
 * Threads    Only the shelf's own thread uses a shelf. After the death of this thread, the thread that ends the tcache uses the shelf. The shelf's
 *            thread uses the bins of a cache in hits while the cache is open. While the cache is shut and no hit is under way, the holder of the
 *            heap's lock uses the bins.
 * Never      No function writes to the blocks. */
#ifndef HK_HEAP_CACHE_H
#define HK_HEAP_CACHE_H

#include "heaps/heap_slabs.h"

struct hk_heap_bin {
    void **top, **limit; /* the newest item; the highest value of top */
    uint64_t served;     /* blocks that malloc has taken */
    void **base;         /* *base is NULL */
};
_Static_assert(sizeof(struct hk_heap_bin) == HK_CLASS_BYTES, "page map entries carry offsets of bins");

/* Classes whose first arrays lie together form a group. */
enum { HK_HEAP_GROUP = 8, HK_HEAP_GROUPS = (HK_FINE_CLASSES + HK_HEAP_GROUP - 1) / HK_HEAP_GROUP };

struct hk_heap_shelf;

struct hk_heap_cache {
    void *no_top, *no_limit;              /* NULL, so that the bin of mark 0 (pages without a slab) is always full */
    _Atomic(struct hk_heap_cache *) xhit; /* the cache that hits use; hk_no_cache while this cache is shut */
    struct hak_heap *heap;
    struct hk_heap_bin bins[HK_FINE_CLASSES];
    uint8_t turns[HK_FINE_CLASSES]; /* misses and overflows since the last attempt to grow */
    uint64_t served_when_aged;      /* the total of served blocks at the last aging of the shelf */
    void **groups[HK_HEAP_GROUPS];  /* first arrays of the bins, by group of classes; NULL: not allocated */
    struct hk_heap_shelf *shelf;
    /* Only the holder of the heap's lock uses these fields. */
    uint64_t generation; /* generation of the heap when it last listed this cache; 0: never listed */
    struct hk_heap_cache *next, *prev;
};
_Static_assert(offsetof(struct hk_heap_cache, bins) == HK_CLASS_BYTES,
               "hk_mark_of_class() of a class leads to its bin");

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
extern void *hk_no_heap_items[1];

/* Says that a hit is under way. Plain stores are enough, because another thread first shuts a cache and then makes this thread execute a fence.
 * After the fence, either the other thread finds `xbusy` set, or this thread finds the cache shut (see hk_heap_recall_locked()). */
HK_INLINE void hk_heap_hit_begin(struct hk_heap_shelf *shelf)
{
    hk_store(shelf->xbusy, 1);
    atomic_signal_fence(memory_order_seq_cst);
}

HK_INLINE void hk_heap_hit_end(struct hk_heap_shelf *shelf) { hk_store_release(shelf->xbusy, 0); }

/* Returns false if the heap was reset, or another thread has shut the cache. */
HK_INLINE bool hk_heap_cache_is_open(const struct hk_heap_cache *cache) { return hk_load(cache->xhit) == cache; }

HK_INLINE struct hk_heap_bin *hk_heap_bin_at(struct hk_heap_cache *cache, size_t offset)
{
    return (struct hk_heap_bin *)(void *)((char *)cache->bins + offset);
}

/* Returns a block, or NULL on a miss. Does not compute the bin's address, because an instruction can address the bin as base plus offset. */
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

/* Pushes a block into the bin at `base` + `first` + `offset`. `first` is a constant. Returns false if the bin is full. */
HK_INLINE bool hk_heap_push_from(void *base, size_t first, size_t offset, void *block)
{
    void **top = ((struct hk_heap_bin *)(void *)((char *)base + first + offset))->top;
    HK_FORGET(offset);
    HK_FORGET(base);
    if (HK_UNLIKELY(top == ((struct hk_heap_bin *)(void *)((char *)base + first + offset))->limit))
        return false;
    top[1] = block;
    HK_READ_NO_EARLIER(); /* stores the item before `top`, as tcache/hit.h does */
    HK_FORGET(offset);
    HK_FORGET(base);
    ((struct hk_heap_bin *)(void *)((char *)base + first + offset))->top = top + 1;
    return true;
}

HK_INLINE bool hk_heap_push(struct hk_heap_cache *cache, size_t offset, void *block)
{
    return hk_heap_push_from(cache, offsetof(struct hk_heap_cache, bins), offset, block);
}

/* Pushes a block by the offset in its page map entry. In a shared slice, the offset comes from the page's mark, which is hk_mark_of_class() of a
 * class. The mark may also be HK_MARK_NONE, for which no bin has room. Returns false if no bin took the block. */
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

/* Returns a block after a miss, or a block of a class without bins. `shelf` may be NULL. On NULL, *by_limit tells whether the limit refused. */
void *hk_heap_refill(struct hk_heap_shelf *shelf, struct hak_heap *heap, unsigned class, bool *by_limit);
/* Takes a freed block back after its bin was full, or if the thread has no cache of the heap. */
void hk_heap_keep(struct hk_heap_shelf *shelf, struct hak_heap *heap, unsigned class, void *block);

/* Moves the blocks of a heap that any thread has cached to their slabs, and releases slabs whose blocks are all free. `own` is the shelf of the
 * calling thread, or NULL. A cache keeps its blocks if its thread stays in a hit for a tenth of a second, because a signal may have interrupted the
 * hit. */
void hk_heap_recall_locked(const struct hk_heap_shelf *own, struct hak_heap *heap);
/* Shuts and unlists the caches of a heap, because the caller begins a new generation and thus ends the cached blocks. The caller holds the lock. */
void hk_heap_void_caches(struct hak_heap *heap);
/* Returns all blocks on a thread's shelf to the slabs of their heaps, and releases slabs whose blocks are all free. */
void hk_heap_shelf_shrink(struct hk_heap_shelf *shelf);
/* Flushes some caches that have served no block since they were last visited. Frees the caches of heaps that were reset or closed. */
void hk_heap_shelf_age(struct hk_heap_shelf *shelf);
/* Flushes and frees the caches of a thread that ends, and frees the thread's shelf. */
void hk_heap_shelf_end(struct hk_heap_shelf *shelf);

/* The blocks and bytes in all caches of a heap, the number of caches, and the number of blocks that the caches have served. */
struct hk_heap_cached {
    size_t blocks, bytes, caches;
    uint64_t served;
};
struct hk_heap_cached hk_heap_cached(const struct hak_heap *heap);
/* Forgets the heap's caches of threads that do not exist in the fork child. The blocks in these caches stay allocated. Returns their number. */
size_t hk_heap_forget_caches(struct hak_heap *heap, const struct hk_heap_shelf *survivor);

#endif
