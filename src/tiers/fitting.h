/* Fitting: cached big blocks by size: which of them fits best?
 *
 *   eight bins an octave, each newest first; a bitmap says which are filled
 *
 * Owns       `by_size` of the slabs in it, and the bins.
 * Invariant  a search looks at no more than a handful of blocks, however many there are: beyond that it takes what it has seen.
 * Threads    the caller holds the big lock. */
#ifndef HK_FITTING_H
#define HK_FITTING_H

#include "slab/slab.h"

enum {
    HK_FITTING_STEPS = 8, /* an octave */
    HK_FITTING_BINS = (HK_ADDRESS_BITS - HK_UNIT_SHIFT) * HK_FITTING_STEPS,
};

struct hk_fitting {
    size_t count;
    uint64_t filled[(HK_FITTING_BINS + 63) / 64];
    struct hk_list bins[HK_FITTING_BINS]; /* set up when they are first filled */
};

struct hk_want {
    size_t bytes, most; /* one that is longer than `most` would be wasted */
    size_t align;
};

void hk_fitting_add(struct hk_fitting *fitting, struct hk_slab *slab);
void hk_fitting_remove(struct hk_fitting *fitting, struct hk_slab *slab);

/* One that is too short is of use if it has half of what is asked for: the rest is added. */
HK_INLINE bool hk_fitting_serves(const struct hk_slab *slab, const struct hk_want *want)
{
    bool fits = slab->bytes >= want->bytes && slab->bytes <= want->most;
    bool can_grow = want->align <= HK_PAGE && slab->bytes < want->bytes && slab->bytes >= want->bytes / 2;
    return (fits || can_grow) && (slab->start & (want->align - 1)) == 0;
}

HK_INLINE size_t hk_fitting_distance(const struct hk_slab *slab, size_t bytes)
{
    return slab->bytes > bytes ? slab->bytes - bytes : bytes - slab->bytes;
}

/* The nearest in size, or `best`, if none is nearer; NULL if there is none. */
struct hk_slab *hk_fitting_nearest(const struct hk_fitting *fitting, const struct hk_want *want, struct hk_slab *best);

#endif
