/* The hit path serves nearly every malloc and free. It makes no call, takes no lock, has no atomic read-modify-write, and stores only to the thread's
 * own cache lines.
 *
 *   malloc  A table (hk_fine_offsets) gives the offset of the bin for a size. The bin's newest block is popped. Sizes at or above the gate miss.
 *   free    The block's page map entry XOR the thread's key is the offset of the block's bin if this thread owns the slab. The block is pushed.
 *           Addresses outside the window miss. A block of more than 32 KiB is first checked for a double free (slab/slab.h).
 *
 * Owns       This file owns hk_self and the functions that open and shut the gate.
 * Invariant  Two NULLs lie below the lowest item of every bin. A pop misses if the newest two items are equal. So one comparison detects an empty
 *            bin and a block that was freed twice in a row. If a thread has no cache, all its calls miss, because its bins are empty and its key
 *            matches no page map entry. The gate is shut until HAKMEM has started, because the dynamic loader may not yet have relocated the data
 *            that the hit path reads.
 * Threads    Only the cache's own thread uses its bins. */
#pragma once

#include "policy/classes.h"
#include "policy/gate.h"
#include "slab/remote_track.h"

/* `top` points to the newest item, and equals `base` if the bin is empty. `limit` is the highest value of `top`. `served` is the number of blocks
 * that the slow paths have taken from the bin. Hits change neither this number nor any other count. base[0] and base[-1] are NULL. */
struct hk_bin {
    void **top, **limit;
    uint64_t served;
    void **base;
};
_Static_assert(sizeof(struct hk_bin) == HK_CLASS_BYTES, "page map entries carry offsets of bins");

struct hk_thread_state {
    struct hk_bin bins[HK_CLASSES]; /* must be first, because a bin's offset counts from the start of the struct */
    size_t key;                     /* page map entry of this thread's slabs, without the class */
    /* Bit i is set if the thread keeps blocks of class i that it frees in other owners' slabs (crossing.c). Bits of medium classes are never set. */
    uint64_t keeps;
};

/* The key of a thread without a cache. No page map entry matches this key. */
#define HK_NO_KEY ((size_t)UINT32_MAX)
#define HK_ALL_HIT SIZE_MAX
/* Opens the gate of malloc for sizes up to `sizes_to`. Frees become hits only if `sizes_to` is HK_ALL_HIT. */
void hk_gate_open(size_t sizes_to);
/* hk_gate_shut() adds a reason to shut the gate (enum hk_shut_by). hk_gate_release() removes it. Without a reason, it is as hk_gate_open() set it. */
void hk_gate_shut(unsigned by);
void hk_gate_release(unsigned by);
/* Returns true if no call can be a hit until the process ends, so that the bins count all blocks that they serve. */
bool hk_gate_counts_all(void);
/* Resets a bin, so that it has neither blocks nor an array. The caller frees the old array. */
void hk_bin_reset(struct hk_bin *bin);
HK_INLINE size_t hk_bin_items(const struct hk_bin *bin) { return (size_t)(bin->top - bin->base); }
HK_INLINE size_t hk_bin_capacity(const struct hk_bin *bin) { return (size_t)(bin->limit - bin->base); }

/* Points to the hot part of the calling thread's cache. If the thread has no cache, points to the hot part of a struct hk_cacheless (layout.h). */
extern _Thread_local struct hk_thread_state *hk_self __attribute__((tls_model(HK_TLS_MODEL), visibility("hidden")));

HK_INLINE struct hk_bin *hk_bin_at(struct hk_thread_state *hot, size_t offset)
{
    return (struct hk_bin *)(void *)((char *)hot + offset);
}

HK_INLINE void *hk_hit_pop(struct hk_thread_state *hot, size_t offset, bool prefetch)
{
    struct hk_bin *bin = hk_bin_at(hot, offset);
    void **top = bin->top;
    void *block = *top, *next = top[-1];
    HK_AS_RESULT(block);
    if (HK_UNLIKELY(block == next))
        return NULL;
    if (block == NULL)
        __builtin_unreachable(); /* below a NULL lie only NULLs; without this line, callers would test the block again */
    if (HK_DEBUG)
        hk_track_expect_home(HK_CALL_MALLOC, block);
    if (prefetch)
        __builtin_prefetch(next, 1); /* the block that the next pop returns; a prefetch of NULL does not fault */
    bin->top = top - 1; /* a decrement in memory (--bin->top) would make the next push wait a third longer */
    return block;
}

/* Variant of hk_hit_pop() for slow paths, which counts the block. */
HK_INLINE void *hk_bin_pop(struct hk_thread_state *hot, size_t offset, bool prefetch)
{
    void *block = hk_hit_pop(hot, offset, prefetch);
    if (HK_LIKELY(block != NULL))
        hk_bin_at(hot, offset)->served++;
    return block;
}

/* Pushes a block. Returns false if the bin is full. `offset` is passed by pointer, so that caller and push keep it in the same register. */
HK_INLINE bool hk_hit_push_at(struct hk_thread_state *hot, size_t *offset, void *block)
{
    void **top = hk_bin_at(hot, *offset)->top;
    HK_FORGET(*offset);
    if (HK_DEBUG)
        hk_track_expect_home(HK_CALL_FREE, block);
    if (HK_UNLIKELY(top == hk_bin_at(hot, *offset)->limit))
        return false;
    top[1] = block;
    HK_READ_NO_EARLIER(); /* the item is stored before `top`, because a signal handler in between may leave by longjmp */
    HK_FORGET(*offset);
    hk_bin_at(hot, *offset)->top = top + 1;
    return true;
}

HK_INLINE bool hk_hit_push(struct hk_thread_state *hot, size_t offset, void *block)
{
    return hk_hit_push_at(hot, &offset, block);
}
/* Returns a block for malloc. Returns NULL on a miss, or if the size is not below the gate. */
HK_INLINE void *hk_hit_malloc(size_t size)
{
    if (HK_UNLIKELY(size >= HK_LOAD_SETTLED(hk_gate.sizes_below)))
        return NULL;
    HK_READ_NO_EARLIER();
    return hk_hit_pop(hk_self, hk_fine_offsets[(size + HK_FINE_STEP - 1) / HK_FINE_STEP], true);
}

/* Returns a block for malloc, or NULL on a miss. A miss recomputes *size from the rounded size, so that no register has to hold *size until then. */
HK_INLINE void *hk_hit_malloc_of(size_t *size)
{
    if (!HK_PAIRS)
        return hk_hit_malloc(*size);
    const struct hk_gate *gate;
    size_t below;
    uintptr_t self;
    HK_NEAR(gate, hk_gate);
    HK_LOAD_PAIR(below, self, &gate->sizes_below);
    if (HK_UNLIKELY(*size >= below))
        return NULL;
    size_t rounded = *size + HK_FINE_STEP - 1;
    HK_FORGET(rounded);
    struct hk_thread_state *hot = *(struct hk_thread_state **)(HK_THREAD_POINTER() + self);
    void *block = hk_hit_pop(hot, gate->fine_offsets[rounded / HK_FINE_STEP], true);
    if (HK_UNLIKELY(block == NULL))
        *size = rounded - (HK_FINE_STEP - 1);
    return block;
}

/* Returns a block of more than HK_FINE_MAX bytes, or NULL on a miss. Does not prefetch the next item, because a prefetch of NULL is slow. */
HK_INLINE void *hk_hit_malloc_coarse(size_t size)
{
    size_t beyond = size - HK_FINE_MAX - 1;
    if (beyond >= HK_LOAD_SETTLED(hk_gate.coarse_sizes))
        return NULL;
    HK_READ_NO_EARLIER();
    void *block = hk_hit_pop(hk_self, hk_coarse_offsets[beyond / HK_COARSE_STEP], false);
    if (HK_LIKELY(block != NULL))
        hk_mark_begin(block);
    return block;
}

/* Returns the page map entry of an address in the window. Returns 0 if there is no entry, or if the address lies outside the window. */
HK_INLINE uint32_t hk_hit_entry(const void *block)
{
    uintptr_t place = (uintptr_t)block - HK_LOAD_SETTLED(hk_window.base);
    if (HK_UNLIKELY(place >= HK_LOAD_SETTLED(hk_window.hits)))
        return 0;
    HK_READ_NO_EARLIER();
    return hk_load(HK_LOAD_SETTLED(hk_window.entries)[place >> HK_SLICE_SHIFT]);
}

/* Frees a block whose page map entry the caller knows. If the block is medium, the caller has checked that it is live. Returns false on a miss. */
HK_INLINE bool hk_hit_free_known(void *block, uint32_t entry)
{
    struct hk_thread_state *hot = hk_self;
    size_t offset = entry ^ hot->key;
    if (HK_UNLIKELY(offset >= HK_CLASSES * HK_CLASS_BYTES))
        return false;
    return hk_hit_push(hot, offset, block);
}

/* Frees a block of another owner's slab into this thread's bin if the thread keeps such blocks. Returns false otherwise, or if the bin is full. */
HK_INLINE bool hk_hit_keep(struct hk_thread_state *hot, void *block, uint32_t entry)
{
    return hk_entry_is_plain_from(entry, HK_FIRST_OWNER) && (hot->keeps >> hk_entry_class(entry) & 1) != 0 &&
           hk_hit_push(hot, entry & HK_ENTRY_CLASS_MASK, block);
}

/* The results of a free on the hit path. After each kind of miss, another function finishes the free (api/entry.h). */
enum hk_free_end {
    HK_FREE_DONE,
    HK_FREE_ELSEWHERE, /* the block is outside the window, or the window is shut */
    HK_FREE_NOT_MINE,  /* this thread has no cache or does not own the block's slab, or the block is large */
    HK_FREE_MEDIUM,    /* the block is in this thread's slab, and larger than HK_FINE_MAX */
    HK_FREE_FULL,      /* the block is in this thread's slab, but the bin is full or has no array */
};

HK_INLINE enum hk_free_end hk_hit_miss(size_t offset)
{
    if (offset < HK_FINE_CLASSES * HK_CLASS_BYTES)
        return HK_FREE_FULL;
    return offset < HK_CLASSES * HK_CLASS_BYTES ? HK_FREE_MEDIUM : HK_FREE_NOT_MINE;
}

/* Variant of hk_hit_free() for processors that load two words with one instruction (aarch64 ldp). If the block is in the window, one branch detects
 * every miss. The bin is loaded before this branch, when the offset may still be wrong. The load is safe, because only the low bits of the offset are
 * used, and they always select a bin. The array of bins is aligned to its size, so that a miss can compute the hot part's address from the bin's. */
HK_INLINE enum hk_free_end hk_hit_free_pair(void *block, struct hk_thread_state **hot, size_t *offset)
{
    const uintptr_t in_bins = sizeof((*hot)->bins) - 1;
    const struct hk_window *near;
    uintptr_t base, self;
    size_t hits;
    const uint32_t *entries; /* not atomic, because compilers would compute the address of an atomic load separately */
    void **top, **limit;
    HK_NEAR(near, hk_window);
    HK_LOAD_PAIR(base, hits, &near->base);
    uintptr_t place = (uintptr_t)block - base;
    if (HK_UNLIKELY(place >= hits))
        return HK_FREE_ELSEWHERE;
    uintptr_t slice = place >> HK_SLICE_SHIFT;
    HK_FORGET(slice); /* otherwise compilers merge this shift with that of the index, which takes three instructions */
    HK_LOAD_BOTH(entries, self, near->entries, near->self);
    size_t entry = entries[slice];
    uintptr_t own = *(uintptr_t *)(HK_THREAD_POINTER() + self);
    size_t key = ((struct hk_thread_state *)own)->key;
    HK_FORGET(key); /* makes compilers load the key here, so that the bin's address can reuse the register of `own` */
    HK_FORGET(own);
    *offset = entry ^ key;
    uintptr_t at = (own & ~in_bins) | (*offset & in_bins);
    HK_FORGET(at); /* otherwise compilers keep `own` in a register until the miss */
    struct hk_bin *bin = (struct hk_bin *)at;
    HK_LOAD_BOTH(top, limit, bin->top, bin->limit);
    HK_UNLESS_BELOW_AND_UNLIKE(*offset, HK_FINE_CLASSES * HK_CLASS_BYTES, top, limit, missed);
    *++top = block;
    HK_READ_NO_EARLIER();
    bin->top = top;
    return HK_FREE_DONE;
missed:
    *hot = (struct hk_thread_state *)(at & ~in_bins);
    return hk_hit_miss(*offset);
}
_Static_assert(!HK_PAIRS || sizeof((struct hk_thread_state){0}.bins) == HK_THREAD_STATE_ALIGN,
               "a bin's address holds that of the hot part");

/* Frees a block into this thread's bin. Returns HK_FREE_DONE or the kind of miss. Sets *offset to the bin's offset if this thread owns the slab. */
HK_INLINE enum hk_free_end hk_hit_free(void *block, struct hk_thread_state **hot, size_t *offset)
{
    if (HK_PAIRS && !HK_DEBUG)
        return hk_hit_free_pair(block, hot, offset);
    uintptr_t place = (uintptr_t)block - HK_LOAD_SETTLED(hk_window.base);
    if (HK_UNLIKELY(place >= HK_LOAD_SETTLED(hk_window.hits)))
        return HK_FREE_ELSEWHERE;
    HK_READ_NO_EARLIER();
    size_t entry = hk_load(HK_LOAD_SETTLED(hk_window.entries)[place >> HK_SLICE_SHIFT]);
    *hot = hk_self;
    *offset = entry ^ (*hot)->key;
    if (HK_UNLIKELY(*offset >= HK_FINE_CLASSES * HK_CLASS_BYTES))
        return *offset < HK_CLASSES * HK_CLASS_BYTES ? HK_FREE_MEDIUM : HK_FREE_NOT_MINE;
    return hk_hit_push_at(*hot, offset, block) ? HK_FREE_DONE : HK_FREE_FULL;
}
