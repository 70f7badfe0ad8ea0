/* Fitting: cached big blocks by size: which of them fits best?
 *
 *   eight bins an octave, each newest first; a bitmap says which are filled
 *
 * Owns       `by_size` of the slabs in it, and the bins.
 * Invariant  a search looks at no more than a handful of blocks, however many there are: beyond that it takes what it has seen.
 * Threads    the caller holds the big lock. */
#ifndef HK_FIT_H
#define HK_FIT_H

#include "slab/slab.h"

enum {
    HK_FIT_STEPS = 8, /* an octave */
    HK_FIT_BINS = (HK_ADDRESS_BITS - HK_SLICE_SHIFT) * HK_FIT_STEPS,
};

struct hk_fit {
    size_t count;
    uint64_t filled[(HK_FIT_BINS + 63) / 64];
    struct hk_list bins[HK_FIT_BINS]; /* set up when they are first filled */
};

struct hk_want {
    size_t bytes, most; /* one that is longer than `most` would be wasted */
    size_t align;
};

void hk_fit_add(struct hk_fit *fit, struct hk_slab *slab);
void hk_fit_remove(struct hk_fit *fit, struct hk_slab *slab);

/* One that is too short is of use if it has half of what is asked for: the rest is added. */
HK_INLINE bool hk_fit_serves(const struct hk_slab *slab, const struct hk_want *want)
{
    bool fits = slab->bytes >= want->bytes && slab->bytes <= want->most;
    bool can_grow = want->align <= HK_PAGE && slab->bytes < want->bytes && slab->bytes >= want->bytes / 2;
    return (fits || can_grow) && (slab->start & (want->align - 1)) == 0;
}

HK_INLINE size_t hk_fit_distance(const struct hk_slab *slab, size_t bytes)
{
    return slab->bytes > bytes ? slab->bytes - bytes : bytes - slab->bytes;
}

/* The nearest in size, or `best`, if none is nearer; NULL if there is none. */
struct hk_slab *hk_fit_nearest(const struct hk_fit *fit, const struct hk_want *want, struct hk_slab *best);

#endif
