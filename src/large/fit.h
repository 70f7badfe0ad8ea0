/* Fit: cached large blocks by size, to find the one that fits a request best.
 *
 *   eight bins for each octave, each newest first; a bitmap says which are filled
 *
 * Owns       `by_size` of the large blocks in it, and the bins.
 * Invariant  a search looks at 64 blocks at most, however many there are, and takes the best of these.
 * Threads    the holder of the large lock. */
#ifndef HK_FIT_H
#define HK_FIT_H

#include "base/bits.h"
#include "large/large_block.h"
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

struct hk_want { /* a request */
    size_t bytes;
    size_t least; /* a mapping shorter than `bytes` is lengthened */
    size_t range; /* a mapping longer than least + range would waste memory */
    size_t align;
};

/* A mapping of half of the request serves if it may move, which one that has to be aligned may not. */
HK_INLINE struct hk_want hk_want_for(size_t bytes, size_t most, size_t align)
{
    size_t least = align > hk_system_page() ? bytes : bytes / 2;
    return (struct hk_want){bytes, least, hk_max(most, least) - least, align};
}

void hk_fit_add(struct hk_fit *fit, struct hk_large_block *large);
void hk_fit_remove(struct hk_fit *fit, struct hk_large_block *large);

HK_INLINE bool hk_fit_serves(const struct hk_large_block *large, const struct hk_want *want)
{
    return large->d.bytes - want->least <= want->range && (large->d.start & (want->align - 1)) == 0;
}

HK_INLINE size_t hk_fit_distance(const struct hk_large_block *large, size_t bytes)
{
    return large->d.bytes > bytes ? large->d.bytes - bytes : bytes - large->d.bytes;
}

/* A nearer block than this one, which serves, is wanted from here on. False: none can be nearer. */
HK_INLINE bool hk_fit_narrow(struct hk_want *want, const struct hk_large_block *large)
{
    size_t away = hk_fit_distance(large, want->bytes);
    if (away == 0)
        return false;
    size_t most = hk_min(want->least + want->range, want->bytes + away - 1);
    want->least = hk_max(want->least + away, want->bytes + 1) - away;
    want->range = most - want->least;
    return true;
}

/* The block nearest in size; `otherwise` if none serves. */
struct hk_large_block *hk_fit_nearest(const struct hk_fit *fit, const struct hk_want *want,
                                      struct hk_large_block *otherwise);

#endif
