/* Bits: defines functions that round numbers, and that count, find and set bits. */
#pragma once

#include "base/base.h"
#include <string.h>

/* Returns the index of the lowest set bit of x, which must not be 0. Uses assembly, because compilers emit two more instructions for the builtin. */
HK_INLINE size_t hk_lowest_bit(uint64_t x)
{
#if defined(__x86_64__)
    uint64_t index;
    __asm__("rep bsf %1, %0" : "=r"(index) : "r"(x) : "cc");
    return index;
#else
    return (size_t)__builtin_ctzll(x);
#endif
}

HK_INLINE unsigned hk_ctz64(uint64_t x) { return (unsigned)__builtin_ctzll(x); }
/* Returns the number of set bits. Does not use the builtin, because compilers for baseline x86-64 turn the builtin into a call of a function. */
HK_INLINE unsigned hk_popcount64(uint64_t x)
{
    x -= x >> 1 & UINT64_MAX / 3;
    x = (x & UINT64_MAX / 5) + (x >> 2 & UINT64_MAX / 5);
    return (unsigned)(((x + (x >> 4)) & UINT64_MAX / 17) * (UINT64_MAX / 255) >> 56);
}
HK_INLINE bool hk_is_pow2(size_t x) { return x != 0 && (x & (x - 1)) == 0; }
/* Returns the lowest power of two that is at least x. x is at most 2^63. */
HK_INLINE size_t hk_pow2_from(size_t x) { return x <= 1 ? 1 : (size_t)1 << (64 - __builtin_clzll(x - 1)); }
HK_INLINE size_t hk_align_up(size_t x, size_t align) { return (x + align - 1) & ~(align - 1); }
HK_INLINE size_t hk_align_down(size_t x, size_t align) { return x & ~(align - 1); }
HK_INLINE size_t hk_min(size_t a, size_t b) { return a < b ? a : b; }
HK_INLINE size_t hk_max(size_t a, size_t b) { return a > b ? a : b; }
/* Returns x, or 0 if x is negative. A sum is negative for a moment if one thread subtracts before another thread adds. */
HK_INLINE size_t hk_positive_part(int64_t x) { return x > 0 ? (size_t)x : 0; }

/* Sets bit `index` % 64 of *word. Returns false if the bit was already set. */
HK_INLINE bool hk_bit_set(uint64_t *word, size_t index)
{
    uint64_t bits = *word;
    bool was_set;
#if defined(__x86_64__) && defined(__GCC_ASM_FLAG_OUTPUTS__)
    __asm__("bts %2, %0" : "+r"(bits), "=@ccc"(was_set) : "r"(index)); /* the C code takes five instructions */
#else
    was_set = (bits >> (index % 64) & 1) != 0;
    bits |= (uint64_t)1 << (index % 64);
#endif
    *word = bits;
    return !was_set;
}

/* Returns the first index from `at` to `end` - 1 at which a bit is set, or clear if `flip` is all ones. Returns `end` if there is no such index. */
HK_INLINE unsigned hk_bits_find(const uint64_t *bits, unsigned at, unsigned end, uint64_t flip)
{
    for (; at < end; at = (at / 64 + 1) * 64) {
        uint64_t word = (bits[at / 64] ^ flip) >> (at % 64);
        if (word != 0)
            return (unsigned)hk_min(at + hk_ctz64(word), end);
    }
    return end;
}

/* Returns a word whose n lowest bits are set. n is in 0..32. */
HK_INLINE uint32_t hk_low_bits32(unsigned n) { return n >= 32 ? ~0u : (1u << n) - 1; }

/* Returns a word whose bit i is set if the n bits of x from bit i upward are all set. n is at least 1. */
HK_INLINE uint32_t hk_runs32(uint32_t x, unsigned n)
{
    for (unsigned have = 1; have < n && x != 0;) {
        unsigned step = have < n - have ? have : n - have;
        x &= x >> step;
        have += step;
    }
    return x;
}
/* Returns the lowest run of ones in x, or 0 if x is 0. The sum of x and its lowest bit has zeros in place of this run. */
HK_INLINE uint32_t hk_lowest_run32(uint32_t x) { return x & ~(x + (x & -x)); }

struct hk_range {
    uintptr_t start, end;
};
/* If a part of [start, end) lies in [from, to), and begins at a lower address than *lowest, sets *lowest to this part. */
HK_INLINE void hk_range_keep_lowest(struct hk_range *lowest, uintptr_t from, uintptr_t to, uintptr_t start,
                                    uintptr_t end)
{
    start = hk_max(start, from);
    end = hk_min(end, to);
    if (start < end && start < lowest->start)
        *lowest = (struct hk_range){start, end};
}

HK_INLINE unsigned hk_longest_run32(uint32_t x)
{
    unsigned n = 0;
    for (; x != 0; n++)
        x &= x >> 1;
    return n;
}
/* Returns the number that follows `random` in a sequence of random numbers. The upper bits of each number are more random than its lower bits. */
HK_INLINE uint64_t hk_random_next(uint64_t random) { return random * 6364136223846793005u + 1442695040888963407u; }

/* Returns the decimal number at the start of a text, or UINT64_MAX if the text does not begin with a digit. */
HK_INLINE uint64_t hk_number_in(const char *text)
{
    uint64_t value = 0;
    if (*text < '0' || *text > '9')
        return UINT64_MAX;
    for (; *text >= '0' && *text <= '9'; text++)
        value = value * 10 + (uint64_t)(*text - '0');
    return value;
}

/* Returns true if the first words that differ are greater in `key`. */
HK_INLINE bool hk_is_greater(const uint64_t *key, const uint64_t *other, unsigned words)
{
    return key[0] > other[0] || (words > 1 && key[0] == other[0] && key[1] > other[1]);
}

/* Inserts a row into an array of *count rows, which are in descending order of a key. If the array already has `most` rows, drops the last row. The
 * key consists of one or two (`words`) adjacent fields of a row, of which `key` points to the first one in `row`. */
static inline void hk_top_insert(void *rows, size_t bytes, unsigned *count, unsigned most, const void *row,
                                 const uint64_t *key, unsigned words)
{
    char *place = (char *)rows + *count * bytes;
    size_t offset = (size_t)((const char *)key - (const char *)row);
    for (; place > (char *)rows && hk_is_greater(key, (const uint64_t *)(void *)(place - bytes + offset), words);
         place -= bytes)
        if (place < (char *)rows + most * bytes)
            memcpy(place, place - bytes, bytes);
    if (place < (char *)rows + most * bytes)
        memcpy(place, row, bytes);
    *count = (unsigned)hk_min(*count + 1, most);
}
