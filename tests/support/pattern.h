/* pattern: every byte of a block says whose it is.
 *
 * The byte at offset i of a block filled with seed s depends on s and on i only, so that a prefix stays right after
 * realloc, and so that two blocks that overlap cannot both be right. */
#ifndef TEST_SUPPORT_PATTERN_H
#define TEST_SUPPORT_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t pattern_word(uint64_t seed, size_t index)
{
    return (seed + index) * 0x9E3779B97F4A7C15u;
}

/* Fills or checks bytes [from, to) of the block at p; memcpy keeps it right at any alignment. */
static inline void pattern_fill_range(void *p, size_t from, size_t to, uint64_t seed)
{
    unsigned char *bytes = p;
    size_t         i = from;
    while (i < to) {
        uint64_t word = pattern_word(seed, i / 8);
        size_t   skip = i % 8;
        size_t   take = to - i < 8 - skip ? to - i : 8 - skip;
        memcpy(bytes + i, (const unsigned char *)&word + skip, take);
        i += take;
        for (; to - i >= 8 && to >= i; i += 8) {
            word = pattern_word(seed, i / 8);
            memcpy(bytes + i, &word, 8);
        }
    }
}

static inline bool pattern_holds(const void *p, size_t size, uint64_t seed)
{
    const unsigned char *bytes = p;
    uint64_t             difference = 0;
    size_t               whole = size - size % 8;
    for (size_t i = 0; i < whole; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, 8);
        difference |= word ^ pattern_word(seed, i / 8);
    }
    uint64_t last = pattern_word(seed, whole / 8);
    return difference == 0 && memcmp(bytes + whole, &last, size - whole) == 0;
}

static inline void pattern_fill(void *p, size_t size, uint64_t seed)
{
    pattern_fill_range(p, 0, size, seed);
}

static inline bool all_zero(const void *p, size_t size)
{
    const unsigned char *bytes = p;
    uint64_t             seen = 0;
    size_t               whole = size - size % 8;
    for (size_t i = 0; i < whole; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, 8);
        seen |= word;
    }
    for (size_t i = whole; i < size; i++) {
        seen |= bytes[i];
    }
    return seen == 0;
}

#endif
