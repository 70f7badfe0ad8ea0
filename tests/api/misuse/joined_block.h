/* Makes a joined block: a block of 1000 bytes that takes the place of four free small blocks (src/slab/joined_blocks.h). */
#ifndef TEST_MISUSE_JOINED_H
#define TEST_MISUSE_JOINED_H

#include "misuse.h"

enum { JOINED_SMALL = 256, JOINED_SIZE = 1000, JOINED_BLOCKS = 400000, JOINED_UNIT = 64 * KIB };

static char *joined_small[JOINED_BLOCKS];

static inline int joined_by_unit(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a / JOINED_UNIT, y = *(const uintptr_t *)b / JOINED_UNIT;
    return (x > y) - (x < y);
}

/* Returns a joined block. First frees all but every sixteenth of many small blocks, and trims. Then allocates larger blocks until one lies in the
 * same 64 KiB as a small block, because the two are then in one slab. Ends the program with status 2 if there is no such block. */
static inline char *a_joined(void)
{
    size_t left = 0;
    for (size_t i = 0; i < JOINED_BLOCKS; i++)
        joined_small[i] = malloc(JOINED_SMALL);
    for (size_t i = 0; i < JOINED_BLOCKS; i++)
        if (i % 16 == 0)
            joined_small[left++] = joined_small[i];
        else
            free(joined_small[i]);
    malloc_trim(0);
    qsort(joined_small, left, sizeof joined_small[0], joined_by_unit);
    for (int i = 0; i < 30000; i++) {
        char *p = malloc(JOINED_SIZE);
        if (bsearch(&p, joined_small, left, sizeof joined_small[0], joined_by_unit) != NULL)
            return p;
    }
    exit(2);
}

static inline void joined_in_thread(void *(*action)(void *), void *argument)
{
    pthread_t thread;
    pthread_create(&thread, NULL, action, argument);
    pthread_join(thread, NULL);
    malloc_trim(0);
}

#endif
