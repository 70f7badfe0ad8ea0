/* Countdown: decides which allocations are sampled: on average one per `mean` bytes, at random.
 *
 *   bytes allocated  --|-----------|---|--------------------------|-->      gaps: exponential, of the given mean
 *
 * Owns       the gaps.
 * Invariant  a block of s bytes is picked with probability 1 - exp(-s / mean), independent of earlier picks; readers of the
 *            profile invert this.
 * Threads    a countdown belongs to one thread. */
#ifndef HK_COUNTDOWN_H
#define HK_COUNTDOWN_H

#include "base/base.h"

struct hk_countdown {
    int64_t left;    /* bytes until the next pick */
    uint64_t random; /* 0: not begun */
};

/* Begins the first gap. The call is optional. Without it, the first gap begins with the first bytes, and the seed comes from the clock. */
void hk_countdown_begin(struct hk_countdown *countdown, uint64_t seed, uint64_t mean);

/* Counts bytes down. Returns true if the gap may end within these bytes; hk_countdown_picks then decides. */
HK_INLINE bool hk_countdown_runs_out(struct hk_countdown *countdown, size_t bytes)
{
    countdown->left -= (int64_t)bytes;
    return countdown->left < 0;
}

/* Returns true if the gap has ended, and then begins the next one. */
bool hk_countdown_picks(struct hk_countdown *countdown, uint64_t mean);
/* Returns the number of allocated bytes that a picked block of `size` represents. */
uint64_t hk_countdown_weight(size_t size, uint64_t mean);

#endif
