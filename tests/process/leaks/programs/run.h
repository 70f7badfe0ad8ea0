/* Defines functions for the programs with planted leaks. A program runs some thousand rounds, at least a millisecond apart. A comment marks the
 * line that leaks, and test_leaks.py looks for this comment. Other blocks that live long belong to a cache, a table or a pool. */
#ifndef LEAKS_RUN_H
#define LEAKS_RUN_H

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 2000, ROUND_US = 1000 };

static __attribute__((unused)) unsigned next_number(unsigned *state)
{
    return *state = *state * 1664525u + 1013904223u, *state >> 8;
}

static __attribute__((noinline, unused)) void work(unsigned blocks, size_t size)
{
    void *all[64];
    for (unsigned i = 0; i < blocks && i < 64; i++)
        memset(all[i] = malloc(size), 1, size);
    for (unsigned i = 0; i < blocks && i < 64; i++)
        free(all[i]);
}

static void end_round(void) { usleep(ROUND_US); }

#endif
