/* Countdown: which allocations are looked at: one in so many bytes, by chance.
 *
 *   bytes allocated  --|-----------|---|--------------------------|-->      gaps: exponential, of the given mean
 *
 * Owns       the gaps.
 * Invariant  a block of s bytes is picked with the probability 1 - exp(-s / mean), whatever was picked before: that is what
 *            readers of the profile undo.
 * Threads    a countdown: its thread. */
#ifndef HK_COUNTDOWN_H
#define HK_COUNTDOWN_H

#include "base/base.h"

struct hk_countdown {
    int64_t left;    /* bytes until the next is picked */
    uint64_t random; /* 0: not begun */
};

/* The first gap begins; without this it begins with the first bytes, by a seed of the moment. */
void hk_countdown_begin(struct hk_countdown *countdown, uint64_t seed, uint64_t mean);

/* So many bytes pass. True if a gap may end in them: then it is for the next to say. */
HK_INLINE bool hk_countdown_runs_out(struct hk_countdown *countdown, size_t bytes)
{
    countdown->left -= (int64_t)bytes;
    return countdown->left < 0;
}

/* True if a gap did end; the next one begins behind the bytes that passed last. */
bool hk_countdown_picks(struct hk_countdown *countdown, uint64_t mean);

/* Bytes of allocations that a picked one of `size` stands for. */
uint64_t hk_countdown_weight(size_t size, uint64_t mean);

#endif
