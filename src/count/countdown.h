/* Countdown: decides at random which allocations are sampled, on average one allocation in `mean` allocated bytes.
 *
 *   bytes allocated  --|-----------|---|--------------------------|-->      gaps: exponential, of the given mean
 *
 * Owns       This file owns the gaps between samples.
 * Invariant  A block of s bytes is picked with probability 1 - exp(-s / mean), independent of earlier picks. Readers of the profile rely on this,
 *            because they divide by the probability.
 * Threads    A countdown belongs to one thread. */
#ifndef HK_COUNTDOWN_H
#define HK_COUNTDOWN_H

#include "base/base.h"

struct hk_countdown {
    int64_t left;    /* bytes until the next sample */
    uint64_t random; /* state of the random numbers; 0: not begun */
};

/* Begins the first gap. If this is never called, the first allocation begins the gap, with a seed from the clock. */
void hk_countdown_begin(struct hk_countdown *countdown, uint64_t seed, uint64_t mean);

/* Counts allocated bytes down. Returns true if the gap may have ended. The caller must then call hk_countdown_picks(). */
HK_INLINE bool hk_countdown_runs_out(struct hk_countdown *countdown, size_t bytes)
{
    countdown->left -= (int64_t)bytes;
    return countdown->left < 0;
}

/* Returns true if the gap has ended, and then begins the next gap. */
bool hk_countdown_picks(struct hk_countdown *countdown, uint64_t mean);
/* Returns the number of allocated bytes that a picked block of `size` represents. */
uint64_t hk_countdown_weight(size_t size, uint64_t mean);

#endif
