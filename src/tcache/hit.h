/* Hit: the path that nearly every malloc and free takes: no call, no lock, no atomic operation, no write outside the thread's
 * own cache lines.
 *
 *   malloc: size -> hk_fine_offsets -> bin: pop               free: address -> page map entry ^ key = bin, if the block is mine: push
 *           only sizes below the gate                               only addresses in the window of the map
 *
 * Owns       hk_self, the thread's one word of thread-local storage, and the gate.
 * Invariant  below the lowest item of every bin lies a NULL, so that an empty bin and one that was never set up miss alike. A
 *            thread without a cache has empty bins and a key that matches nothing: everything it does is a miss. Until HAKMEM
 *            has started, the gate is shut, and nothing is read that the loader may not have set up yet.
 * Threads    its own. */
#ifndef HK_HIT_H
#define HK_HIT_H

#include "base/base.h"
#include "policy/classes.h"
#include "slab/outbox.h"
#include "span/page_map.h"

struct hk_bin {
    void **top;      /* the newest item; base when empty */
    void **limit;    /* top may not go beyond */
    uint64_t served; /* blocks handed out from here, ever */
    void **base;     /* *base is NULL */
};
_Static_assert(sizeof(struct hk_bin) == HK_CLASS_BYTES, "page map entries carry offsets of bins");

struct hk_hot {
    struct hk_bin bins[HK_CLASSES]; /* first: a bin's address is front + offset */
    size_t key;                     /* my page map entries, less the class; as wide as an offset, so that nothing is widened */
    struct hk_outbox outbox;        /* what is not mine */
};

/* Of who has no cache: matches no page map entry. */
#define HK_NO_KEY ((size_t)UINT32_MAX)

/* Written once, at start. Zero lets nothing pass. The gate of free is the map's window. */
struct hk_gate {
    size_t sizes_below;        /* that malloc looks up */
    size_t coarse_sizes;       /* how many beyond HK_FINE_MAX, looked up by steps of 4 KiB */
} HK_ALIGNED(HK_CACHE_LINE);

extern struct hk_gate hk_gate __attribute__((visibility("hidden")));
/* Allocations of up to so many bytes may be hits, for as long as the process lives; of frees all or, unless HK_ALL_HIT, none. */
#define HK_ALL_HIT SIZE_MAX
void hk_gate_open(size_t sizes_to);
/* Points a bin at nothing: no array, no items. */
void hk_bin_reset(struct hk_bin *bin);
HK_INLINE size_t hk_bin_items(const struct hk_bin *bin) { return (size_t)(bin->top - bin->base); }
HK_INLINE size_t hk_bin_capacity(const struct hk_bin *bin) { return (size_t)(bin->limit - bin->base); }

/* Makes every call of a thread that uses it a miss. */
void hk_hot_shut(struct hk_hot *hot);

/* What hk_self points to in a thread that has no cache: not yet, or no more. */
extern struct hk_hot hk_hot_unborn, hk_hot_ended;

extern _Thread_local struct hk_hot *hk_self __attribute__((tls_model("initial-exec"), visibility("hidden")));

HK_INLINE struct hk_bin *hk_bin_at(struct hk_hot *hot, size_t offset)
{
    return (struct hk_bin *)(void *)((char *)hot + offset);
}

HK_INLINE void *hk_hit_pop(struct hk_hot *hot, size_t offset, bool prefetch)
{
    struct hk_bin *bin = hk_bin_at(hot, offset);
    void **top = bin->top;
    void *block = *top;
    HK_AS_RESULT(block);
    if (HK_UNLIKELY(block == NULL))
        return NULL;
    if (prefetch)
        __builtin_prefetch(top[-1], 1); /* who pops next will write there; at the bottom, NULL: a prefetch cannot fault */
    bin->top = top - 1; /* not -= in memory: the processor is a third slower at handing that on to the next push */
    bin->served++;
    return block;
}

/* The offset is what it was, for who goes on with it: in the register that the push had it in. */
HK_INLINE bool hk_hit_push_at(struct hk_hot *hot, size_t *offset, void *block)
{
    void **top = hk_bin_at(hot, *offset)->top;
    HK_FORGET(*offset);
    if (HK_UNLIKELY(top == hk_bin_at(hot, *offset)->limit))
        return false;
    top[1] = block;
    HK_READ_NO_EARLIER(); /* a signal handler that jumps away must not leave a top over an old item */
    HK_FORGET(*offset);
    hk_bin_at(hot, *offset)->top = top + 1;
    return true;
}

HK_INLINE bool hk_hit_push(struct hk_hot *hot, size_t offset, void *block) { return hk_hit_push_at(hot, &offset, block); }

/* For who knows that HAKMEM has started, and that the size is in the fine table: what lies behind the gate. */
HK_INLINE void *hk_hit_malloc_fine(size_t size)
{
    return hk_hit_pop(hk_self, hk_fine_offsets[(size + HK_FINE_STEP - 1) / HK_FINE_STEP], true);
}

/* NULL is a miss. The sizes that most calls are for. */
HK_INLINE void *hk_hit_malloc(size_t size)
{
    if (HK_UNLIKELY(size >= HK_LOAD_SETTLED(hk_gate.sizes_below)))
        return NULL;
    HK_READ_NO_EARLIER();
    return hk_hit_malloc_fine(size);
}

/* NULL is a miss. The sizes beyond: a bin serves them too, one more compare away. Of such blocks a bin has few: what would be
 * prefetched is mostly NULL, for which the processor searches the page tables each time. */
HK_INLINE void *hk_hit_malloc_coarse(size_t size)
{
    size_t beyond = size - HK_FINE_MAX - 1;
    if (beyond >= HK_LOAD_SETTLED(hk_gate.coarse_sizes))
        return NULL;
    HK_READ_NO_EARLIER();
    return hk_hit_pop(hk_self, hk_coarse_offsets[beyond / HK_COARSE_STEP], false);
}

/* 0 where the map says nothing, or may not be asked. */
HK_INLINE uint32_t hk_hit_entry(const void *block)
{
    uintptr_t place = (uintptr_t)block - HK_LOAD_SETTLED(hk_window.base);
    if (HK_UNLIKELY(place >= HK_LOAD_SETTLED(hk_window.covered)))
        return 0;
    HK_READ_NO_EARLIER();
    return hk_load(HK_LOAD_SETTLED(hk_window.entries)[place >> HK_SLICE_SHIFT]);
}

/* For who knows the page map entry: what lies behind the map. */
HK_INLINE bool hk_hit_free_known(void *block, uint32_t entry)
{
    struct hk_hot *hot = hk_self;
    size_t offset = entry ^ hot->key;
    if (HK_UNLIKELY(offset >= HK_CLASSES * HK_CLASS_BYTES))
        return false;
    return hk_hit_push(hot, offset, block);
}

/* Each kind of miss goes on where it knows what it knows already. */
enum hk_free_end {
    HK_FREE_DONE,
    HK_FREE_ELSEWHERE, /* outside the window, or nothing is a hit */
    HK_FREE_NOT_MINE,  /* another thread's, nobody's, a big block; or the thread has no cache */
    HK_FREE_FULL,      /* my block; my bin is full, or never set up */
};

/* The offset is that of the bin, where the block is mine. */
HK_INLINE enum hk_free_end hk_hit_free(void *block, struct hk_hot **hot, size_t *offset)
{
    uintptr_t place = (uintptr_t)block - HK_LOAD_SETTLED(hk_window.base);
    if (HK_UNLIKELY(place >= HK_LOAD_SETTLED(hk_window.covered)))
        return HK_FREE_ELSEWHERE;
    HK_READ_NO_EARLIER();
    size_t entry = hk_load(HK_LOAD_SETTLED(hk_window.entries)[place >> HK_SLICE_SHIFT]);
    *hot = hk_self;
    *offset = entry ^ (*hot)->key;
    if (HK_UNLIKELY(*offset >= HK_CLASSES * HK_CLASS_BYTES))
        return HK_FREE_NOT_MINE;
    return hk_hit_push_at(*hot, offset, block) ? HK_FREE_DONE : HK_FREE_FULL;
}

#endif
