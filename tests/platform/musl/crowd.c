/* Usage: crowd THREADS ROUNDS
 * Threads allocate, keep and free blocks, and pass blocks to each other. A malloc with only one lock would be slow. Prints the number of blocks. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT = 512, MOST = 64, PASS = 16 };

static _Atomic(void *) places[KEPT];
static _Atomic unsigned long blocks;
static long rounds;

static void *work(void *number)
{
    void *kept[KEPT] = {0};
    uint32_t state = (uint32_t)(uintptr_t)number * 2654435761u + 1;
    unsigned long made = 0;
    for (long i = 0; i < rounds; i++) {
        state = state * 1664525u + 1013904223u;
        size_t at = state >> 16 & (KEPT - 1), size = 16 + (state >> 8 & 511);
        free(kept[at]);
        kept[at] = memset(malloc(size), 1, 16);
        made++;
        if (i % PASS == 0)
            kept[at] = atomic_exchange(&places[at], kept[at]);
    }
    for (size_t i = 0; i < KEPT; i++)
        free(kept[i]);
    atomic_fetch_add(&blocks, made);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread[MOST];
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    rounds = argc > 2 ? atol(argv[2]) : 100000;
    for (int t = 0; t < threads && t < MOST; t++)
        if (pthread_create(&thread[t], NULL, work, (void *)(uintptr_t)(t + 1)) != 0)
            return 1;
    for (int t = 0; t < threads && t < MOST; t++)
        pthread_join(thread[t], NULL);
    printf("%lu blocks\n", blocks);
    return 0;
}
