/* Fit: cached big blocks by size, to find the one that fits a request best.
 *
 *   eight bins for each octave, each newest first; a bitmap says which are filled
 *
 * Owns       `by_size` of the big blocks in it, and the bins.
 * Invariant  a search looks at 64 blocks at most, however many there are, and takes the best of these.
 * Threads    the holder of the big lock. */
#ifndef HK_FIT_H
#define HK_FIT_H

#include "big/big_block.h"
#include "os/os.h"

enum {
    HK_FIT_STEPS = 8, /* bins of an octave */
    HK_FIT_BINS = (HK_ADDRESS_BITS - HK_SLICE_SHIFT) * HK_FIT_STEPS,
};

struct hk_fit {
    size_t count;
    uint64_t filled[(HK_FIT_BINS + 63) / 64];
    struct hk_list bins[HK_FIT_BINS]; /* each is initialized when it is first filled */
};

struct hk_want {        /* a request */
    size_t bytes, most; /* a mapping longer than `most` would waste memory */
    size_t align;
};

void hk_fit_add(struct hk_fit *fit, struct hk_big_block *big);
void hk_fit_remove(struct hk_fit *fit, struct hk_big_block *big);

/* A mapping that is too short serves if it has half of the request: it is lengthened. */
HK_INLINE bool hk_fit_serves(const struct hk_big_block *big, const struct hk_want *want)
{
    bool fits = big->d.bytes >= want->bytes && big->d.bytes <= want->most;
    bool can_grow = want->align <= hk_system_page() && big->d.bytes < want->bytes && big->d.bytes >= want->bytes / 2;
    return (fits || can_grow) && (big->d.start & (want->align - 1)) == 0;
}

HK_INLINE size_t hk_fit_distance(const struct hk_big_block *big, size_t bytes)
{
    return big->d.bytes > bytes ? big->d.bytes - bytes : bytes - big->d.bytes;
}

/* The block nearest in size, or `best` if none is nearer; NULL if there is none. */
struct hk_big_block *hk_fit_nearest(const struct hk_fit *fit, const struct hk_want *want, struct hk_big_block *best);

#endif
