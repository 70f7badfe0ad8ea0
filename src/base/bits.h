/* Bits: powers of two, rounding, counting. Pure functions. */
#ifndef HK_BITS_H
#define HK_BITS_H

#include "base/base.h"

HK_INLINE unsigned hk_ctz64(uint64_t x) { return (unsigned)__builtin_ctzll(x); }
HK_INLINE unsigned hk_popcount64(uint64_t x) { return (unsigned)__builtin_popcountll(x); }
HK_INLINE bool hk_is_pow2(size_t x) { return x != 0 && (x & (x - 1)) == 0; }
HK_INLINE size_t hk_align_up(size_t x, size_t align) { return (x + align - 1) & ~(align - 1); }
HK_INLINE size_t hk_align_down(size_t x, size_t align) { return x & ~(align - 1); }
HK_INLINE size_t hk_min(size_t a, size_t b) { return a < b ? a : b; }
HK_INLINE size_t hk_max(size_t a, size_t b) { return a > b ? a : b; }

/* The n lowest bits, n in 0..32. */
HK_INLINE uint32_t hk_low_bits32(unsigned n) { return n >= 32 ? ~0u : (1u << n) - 1; }

/* Bit i of the result is set where x has n ones in a row from bit i up; n >= 1. */
HK_INLINE uint32_t hk_runs32(uint32_t x, unsigned n)
{
    for (unsigned have = 1; have < n && x != 0;) {
        unsigned step = have < n - have ? have : n - have;
        x &= x >> step;
        have += step;
    }
    return x;
}

/* The length of the longest run of ones in x. */
HK_INLINE unsigned hk_longest_run32(uint32_t x)
{
    unsigned n = 0;
    for (; x != 0; n++)
        x &= x >> 1;
    return n;
}

#endif
