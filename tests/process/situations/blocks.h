/* Fills a table with blocks of many sizes. Each block has a pattern of its own. */
#ifndef TEST_SITUATIONS_BLOCKS_H
#define TEST_SITUATIONS_BLOCKS_H

#include "support/check.h"
#include "support/pattern.h"

#include <stdlib.h>

/* Returns the size of block i. Most are small, some have 60 KiB, and a few have a mapping of their own. */
static inline size_t blocks_size(size_t i)
{
    return i % 97 == 96 ? 1500000 + i : i % 23 == 22 ? 60000 + i : i * 37 % 2000 + 1;
}

static inline void blocks_allocate(void **block, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        block[i] = malloc(blocks_size(i));
        CHECK(block[i] != NULL, "block %zu of %zu bytes", i, blocks_size(i));
        pattern_fill(block[i], blocks_size(i), i);
    }
}

static inline void blocks_check(void *const *block, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        CHECK(pattern_holds(block[i], blocks_size(i), i), "block %zu of %zu bytes has changed", i, blocks_size(i));
    }
}

static inline void blocks_free(void **block, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        CHECK(pattern_holds(block[i], blocks_size(i), i), "block %zu of %zu bytes has changed", i, blocks_size(i));
        if (i % 3 == 0) {
            void *grown = realloc(block[i], 2 * blocks_size(i));
            CHECK(grown && pattern_holds(grown, blocks_size(i), i), "block %zu after realloc", i);
            block[i] = grown ? grown : block[i];
        }
        free(block[i]);
        block[i] = NULL;
    }
}

#endif
