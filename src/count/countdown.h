/* Countdown: decides at random which allocations are sampled. On average there is one sample per `mean` allocated bytes.
 *
 *   bytes allocated  --|-----------|---|--------------------------|-->      gaps: exponential, of the given mean
 *
 * Owns       This file owns the gaps between samples.
 * Invariant  A block of s bytes is picked with probability 1 - exp(-s / mean), independent of earlier picks. Readers of the profile divide by it.
 * Threads    A countdown belongs to one thread. */
#pragma once

#include "base/base.h"

struct hk_countdown {
    int64_t left;    /* bytes until the next sample */
    uint64_t random; /* state of the random generator; 0: the first count sets it from the clock */
};

/* Counts allocated bytes down. Returns true if the gap may have ended. The caller must then call hk_countdown_picks(). */
HK_INLINE bool hk_countdown_runs_out(struct hk_countdown *countdown, size_t bytes)
{
    countdown->left -= (int64_t)bytes;
    return countdown->left < 0;
}

/* Counts the bytes of several allocations down. Returns how many samples are due for these bytes, but at most `most`. */
unsigned hk_countdown_ends(struct hk_countdown *countdown, uint64_t bytes, uint64_t mean, unsigned most);
/* Returns true if the gap has ended, and then begins the next gap. */
HK_INLINE bool hk_countdown_picks(struct hk_countdown *of, uint64_t mean) { return hk_countdown_ends(of, 0, mean, 1); }
/* Returns the number of allocated bytes that a picked block of `size` bytes represents. */
uint64_t hk_countdown_weight(size_t size, uint64_t mean);
