#include "early.h"

#include "support/pattern.h"

#include <malloc.h>
#include <stdlib.h>

void early_allocate(struct early_blocks *blocks)
{
    static const size_t size[] = {1, 16, 100, 1000, 5000, 40000, 200000, 3000000};
    for (size_t i = 0; i < EARLY_BLOCKS; i++) {
        size_t bytes = size[i % 8] + i;
        void *p = i % 4 == 0 ? calloc(1, bytes) : i % 4 == 1 ? memalign(64, bytes) : malloc(bytes);
        p = i % 4 == 3 ? realloc(p, bytes += 10) : p;
        if (!p) {
            return; /* `used` stays false. */
        }
        pattern_fill(p, bytes, i);
        blocks->block[i] = p;
        blocks->size[i] = bytes;
        if (i % 3 == 0) {
            free(malloc(bytes));
        }
    }
    blocks->used = true;
}

bool early_check_and_free(struct early_blocks *blocks)
{
    bool good = blocks->used;
    for (size_t i = 0; good && i < EARLY_BLOCKS; i++) {
        good = pattern_holds(blocks->block[i], blocks->size[i], i);
        free(blocks->block[i]);
    }
    blocks->used = false;
    return good;
}
