/* pattern: fills blocks with bytes that identify the block.
 *
 * The byte at offset i of a block that is filled with seed s depends only on s and i. Therefore a prefix stays correct after realloc, and if
 * two blocks overlap, at least one of them has wrong bytes. */
#ifndef TEST_SUPPORT_PATTERN_H
#define TEST_SUPPORT_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Returns the word at index i. It is a sum, so that a loop over i costs only one addition for each word. */
static inline uint64_t pattern_word(uint64_t seed, size_t i)
{
    return seed * 0x9E3779B97F4A7C15u + i * 0xD1B54A32D192ED03u;
}

static inline unsigned char pattern_byte(uint64_t seed, size_t offset)
{
    return (unsigned char)(pattern_word(seed, offset / 8) >> (offset % 8 * 8));
}

/* Fills bytes [from, to) of the block at p. */
static inline void pattern_fill_range(void *p, size_t from, size_t to, uint64_t seed)
{
    unsigned char *bytes = p;
    for (; from < to && from % 8; from++) {
        bytes[from] = pattern_byte(seed, from);
    }
    for (; from + 8 <= to; from += 8) {
        uint64_t word = pattern_word(seed, from / 8);
        memcpy(bytes + from, &word, 8);
    }
    for (; from < to; from++) {
        bytes[from] = pattern_byte(seed, from);
    }
}

static inline bool pattern_holds(const void *p, size_t size, uint64_t seed)
{
    const unsigned char *bytes = p;
    uint64_t difference = 0;
    size_t i = 0;
    for (; i + 8 <= size; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, 8);
        difference |= word ^ pattern_word(seed, i / 8);
    }
    for (; i < size; i++) {
        difference |= (uint64_t)(bytes[i] ^ pattern_byte(seed, i));
    }
    return difference == 0;
}

static inline void pattern_fill(void *p, size_t size, uint64_t seed) { pattern_fill_range(p, 0, size, seed); }

static inline bool all_zero(const void *p, size_t size)
{
    const unsigned char *bytes = p;
    uint64_t seen = 0;
    size_t whole = size - size % 8;
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
