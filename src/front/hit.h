/* Hit: the path that nearly every malloc and free takes: no call, no lock, no atomic operation, no write outside the thread's
 * own cache lines.
 *
 *   malloc: size -> hk_fine_offsets -> bin: pop               free: address -> route ^ key = bin, if the block is mine: push
 *
 * Owns       hk_self, the thread's one word of thread-local storage.
 * Invariant  below the lowest item of every bin lies a NULL, so that an empty bin and one that was never set up miss alike. A
 *            thread without a cache has empty bins, no routes, and a key that matches nothing: everything it does is a miss.
 * Threads    its own. */
#ifndef HK_HIT_H
#define HK_HIT_H

#include "base/base.h"
#include "policy/classes.h"
#include "span/map.h"

struct hk_bin {
    void **top;      /* the newest item; base when empty */
    void **limit;    /* top may not go beyond */
    uint64_t served; /* blocks handed out from here, ever */
    void **base;     /* *base is NULL */
};
_Static_assert(sizeof(struct hk_bin) == HK_CLASS_BYTES, "routes carry offsets of bins");

struct hk_front {
    struct hk_bin bins[HK_CLASSES]; /* first: a bin's address is front + offset */
    _Atomic uint32_t *routes;       /* the owner map, or one word that matches nothing */
    uintptr_t mask;                 /* of unit numbers */
    uint32_t key;                   /* my routes, less the class */
};

/* What hk_self points to in a thread that has no cache: not yet, or no more. */
extern struct hk_front hk_front_unborn, hk_front_dying;

extern _Thread_local struct hk_front *hk_self __attribute__((tls_model("initial-exec"), visibility("hidden")));

HK_INLINE struct hk_bin *hk_bin_at(struct hk_front *front, size_t offset)
{
    return (struct hk_bin *)(void *)((char *)front + offset);
}

HK_INLINE void *hk_hit_pop(struct hk_front *front, size_t offset)
{
    void **top = hk_bin_at(front, offset)->top;
    void *block = *top;
    HK_AS_RESULT(block);
    if (HK_UNLIKELY(block == NULL))
        return NULL;
    HK_FORGET(offset);
    hk_bin_at(front, offset)->top = top - 1;
    HK_FORGET(offset);
    hk_bin_at(front, offset)->served++;
    return block;
}

HK_INLINE bool hk_hit_push(struct hk_front *front, size_t offset, void *block)
{
    void **top = hk_bin_at(front, offset)->top;
    HK_FORGET(offset);
    if (HK_UNLIKELY(top == hk_bin_at(front, offset)->limit))
        return false;
    top[1] = block;
    HK_FORGET(offset);
    hk_bin_at(front, offset)->top = top + 1;
    return true;
}

/* NULL is a miss. */
HK_INLINE void *hk_hit_malloc(size_t size)
{
    struct hk_front *front = hk_self;
    if (HK_UNLIKELY(size > HK_FINE_MAX))
        return NULL;
    return hk_hit_pop(front, hk_fine_offsets[(size + HK_FINE_STEP - 1) / HK_FINE_STEP]);
}

/* False is a miss: not mine, not a block of a bin, or the bin is full. */
HK_INLINE bool hk_hit_free(void *block)
{
    struct hk_front *front = hk_self;
    uintptr_t unit = (uintptr_t)block >> HK_UNIT_SHIFT & front->mask;
    uint32_t offset = hk_load(front->routes[unit]) ^ front->key;
    if (HK_UNLIKELY(offset >= HK_CLASSES * HK_CLASS_BYTES))
        return false;
    return hk_hit_push(front, offset, block);
}

#endif
