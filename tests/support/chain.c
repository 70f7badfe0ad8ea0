#include "chain.h"

#include <stdlib.h>
#include <string.h>

void *chain_grow(size_t bytes, size_t block_size)
{
    void **last = NULL;
    for (size_t i = 0; i < bytes; i += block_size) {
        void **block = malloc(block_size);
        if (block == NULL) {
            abort();
        }
        memset(block, 1, block_size);
        *block = last;
        last = block;
    }
    return last;
}

void chain_drop(void *chain)
{
    for (void **block = chain, **next; block; block = next) {
        next = *block;
        free(block);
    }
}
