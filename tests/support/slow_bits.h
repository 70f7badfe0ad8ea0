/* Computes the results of base/bits.h bit by bit. Its tests use them as the reference. */
#ifndef TEST_SLOW_BITS_H
#define TEST_SLOW_BITS_H

#include <stdbool.h>
#include <stdint.h>

static inline unsigned longest_run(uint32_t x)
{
    unsigned longest = 0, run = 0;
    for (unsigned bit = 0; bit < 32; bit++) {
        run = (x >> bit & 1) != 0 ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    return longest;
}

static inline uint32_t starts_of_runs(uint32_t x, unsigned n)
{
    uint32_t starts = 0;
    for (unsigned bit = 0; bit + n <= 32; bit++) {
        bool all = true;
        for (unsigned i = 0; i < n; i++)
            all = all && (x >> (bit + i) & 1) != 0;
        starts |= all ? (uint32_t)1 << bit : 0;
    }
    return starts;
}

#endif
