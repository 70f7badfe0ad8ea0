/* lodger: a block of 1000 bytes that takes the place of four small ones between others (src/slab/lodge.h). */
#ifndef TEST_MISUSE_LODGER_H
#define TEST_MISUSE_LODGER_H

#include "misuse.h"

enum { LODGER_SMALL = 256, LODGER_SIZE = 1000, LODGER_BLOCKS = 400000, LODGER_UNIT = 64 * KIB };

static char *lodger_small[LODGER_BLOCKS];

static inline int lodger_by_unit(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a / LODGER_UNIT, y = *(const uintptr_t *)b / LODGER_UNIT;
    return (x > y) - (x < y);
}

/* Of a large heap of small blocks, one of sixteen is left, and what was freed has come home. Takes larger ones, until one of them shares its 64 KiB
 * with a small block: they are of one slab. Ends the program, with 2, where there is none. */
static inline char *a_lodger(void)
{
    size_t left = 0;
    for (size_t i = 0; i < LODGER_BLOCKS; i++)
        lodger_small[i] = malloc(LODGER_SMALL);
    for (size_t i = 0; i < LODGER_BLOCKS; i++)
        if (i % 16 == 0)
            lodger_small[left++] = lodger_small[i];
        else
            free(lodger_small[i]);
    malloc_trim(0);
    qsort(lodger_small, left, sizeof lodger_small[0], lodger_by_unit);
    for (int i = 0; i < 30000; i++) {
        char *p = malloc(LODGER_SIZE);
        if (bsearch(&p, lodger_small, left, sizeof lodger_small[0], lodger_by_unit) != NULL)
            return p;
    }
    exit(2);
}

static inline void lodger_in_thread(void *(*action)(void *), void *argument)
{
    pthread_t thread;
    pthread_create(&thread, NULL, action, argument);
    pthread_join(thread, NULL);
    malloc_trim(0);
}

#endif
