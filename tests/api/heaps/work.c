// Usage: test_work HEAPS THREADS REQUESTS FREE
//   HEAPS     number of heaps; 0 means the process's heap
//   REQUESTS  number of requests of each thread for each heap (or for 1000 tenants)
//   FREE      plain (free) or known (hak_heap_free)
//
// Does the same work on the process's heap and on many heaps. Threads serve requests of tenants. A request allocates blocks of mixed sizes,
// writes and reads all their bytes, and frees them in another order. check_costs.py counts the instructions of both.
#include <hakmem.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/rng.h"

enum { BLOCKS = 24, TENANTS = 1000, LARGEST = 512 };

static hak_heap_t *heaps[TENANTS];
static unsigned heaps_used, requests;
static int known;

struct block {
    uint64_t *words;
    size_t bytes;
};

static uint64_t fill_and_sum(struct block *block, uint64_t seed)
{
    uint64_t sum = 0;
    for (size_t word = 0; word < block->bytes / 8; word++)
        block->words[word] = seed = seed * 6364136223846793005u + word;
    for (size_t word = 0; word < block->bytes / 8; word++)
        sum = (sum ^ block->words[word]) * 1099511628211u;
    return sum;
}

static uint64_t serve(struct rng *rng, hak_heap_t *heap)
{
    struct block blocks[BLOCKS];
    uint64_t sum = 0;
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i].bytes = 16 + rng_below(rng, LARGEST - 15);
        blocks[i].words = heap != NULL ? hak_heap_malloc(heap, blocks[i].bytes) : hak_malloc(blocks[i].bytes);
        if (blocks[i].words == NULL)
            abort();
        sum += fill_and_sum(&blocks[i], sum);
    }
    for (int i = 0; i < BLOCKS; i++) {
        int at = i * 7 % BLOCKS;
        if (known && heap != NULL)
            hak_heap_free(heap, blocks[at].words);
        else
            hak_free(blocks[at].words);
    }
    return sum;
}

static void *thread(void *number)
{
    struct rng rng = rng_seeded(1 + (unsigned)(uintptr_t)number);
    uint64_t sum = 0;
    for (unsigned n = 0; n < requests * TENANTS; n++) {
        unsigned tenant = rng_below(&rng, TENANTS);
        sum += serve(&rng, heaps_used > 0 ? heaps[tenant % heaps_used] : NULL);
    }
    return (void *)(uintptr_t)sum;
}

int main(int argc, char **argv)
{
    pthread_t threads[64];
    if (argc != 5)
        return 2;
    heaps_used = (unsigned)atoi(argv[1]);
    unsigned count = (unsigned)atoi(argv[2]);
    requests = (unsigned)atoi(argv[3]);
    known = strcmp(argv[4], "known") == 0;
    for (unsigned i = 0; i < heaps_used; i++)
        if ((heaps[i] = hak_heap_create(NULL, 0)) == NULL)
            return 1;
    for (unsigned i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, thread, (void *)(uintptr_t)i) != 0)
            return 1;
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
