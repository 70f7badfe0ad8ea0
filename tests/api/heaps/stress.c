/* Usage: test_heap_stress threads=N steps=N [seed=N]
 * Tests threads that allocate, resize, pass on and free blocks of many heaps, and checks the contents. Each thread also creates, resets and
 * destroys its own heap. Threads end and others begin. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hakmem.h"
#include "support/check.h"
#include "support/pattern.h"
#include "support/rng.h"
#include "support/watchdog.h"

enum { MOST_THREADS = 64, SHARED = 12, SLOTS = 256, BOX = 64, MIB = 1 << 20 };

struct block {
    unsigned char *at;
    size_t size;
    uint64_t seed;
    hak_heap_t *heap;
};

static hak_heap_t *shared[SHARED];
static unsigned steps = 30000, threads_at_once = 8;
static uint64_t seed = 1;
static struct {
    pthread_mutex_t lock;
    struct block blocks[BOX];
    unsigned count;
} box = {.lock = PTHREAD_MUTEX_INITIALIZER};

static size_t some_size(struct rng *rng)
{
    uint32_t kind = rng_below(rng, 100);
    if (kind < 80)
        return 1 + rng_below(rng, 600);
    if (kind < 95)
        return 1 + rng_below(rng, 40000);
    return 1 + rng_below(rng, kind < 99 ? MIB : 3 * MIB);
}

static void check_block(const struct block *block)
{
    CHECK(pattern_holds(block->at, block->size, block->seed), "%zu bytes at %p", block->size, (void *)block->at);
    CHECK(hak_heap_of(block->at) == block->heap, "of another heap");
}

static void drop(struct block *block, struct rng *rng)
{
    if (block->at == NULL)
        return;
    check_block(block);
    if (rng_below(rng, 2) == 0 && block->heap != NULL)
        hak_heap_free(block->heap, block->at);
    else
        hak_free(block->at);
    block->at = NULL;
}

/* Allocates a block. A heap that has a limit may refuse the block. */
static void take(struct block *block, hak_heap_t *heap, struct rng *rng)
{
    size_t size = some_size(rng), align = rng_below(rng, 20) == 0 ? (size_t)16 << rng_below(rng, 10) : 0;
    drop(block, rng);
    *block = (struct block){.size = size, .seed = rng_next(rng), .heap = heap};
    if (heap == NULL)
        block->at = hak_malloc(size);
    else if (align != 0)
        block->at = hak_heap_aligned_alloc(heap, align, size);
    else
        block->at = hak_heap_malloc(heap, size);
    if (block->at != NULL)
        pattern_fill(block->at, size, block->seed);
}

static void resize(struct block *block, struct rng *rng)
{
    size_t size = some_size(rng);
    if (block->at == NULL)
        return;
    unsigned char *resized = hak_realloc(block->at, size);
    if (resized == NULL)
        return;
    CHECK(pattern_holds(resized, size < block->size ? size : block->size, block->seed), "resized to %zu", size);
    block->at = resized;
    block->size = size;
    pattern_fill(block->at, size, block->seed);
}

/* Puts the block into the box for another thread, and takes another one out. */
static void exchange(struct block *block)
{
    pthread_mutex_lock(&box.lock);
    struct block other = {.at = NULL};
    if (box.count > 0)
        other = box.blocks[--box.count];
    if (block->at != NULL && box.count < BOX) {
        box.blocks[box.count++] = *block;
        *block = other;
    } else if (other.at != NULL) {
        box.blocks[box.count++] = other;
    }
    pthread_mutex_unlock(&box.lock);
}

/* Uses a heap of this thread's own, and resets or destroys it with blocks in it. */
static void query(hak_heap_t **own, struct rng *rng)
{
    struct block blocks[20] = {{.at = NULL}};
    for (int i = 0; i < 20; i++)
        take(&blocks[i], *own, rng);
    for (int i = 0; i < 20; i += 3)
        drop(&blocks[i], rng);
    for (int i = 0; i < 20; i++)
        if (blocks[i].at != NULL)
            check_block(&blocks[i]);
    if (rng_below(rng, 4) != 0) {
        CHECK(hak_heap_reset(*own) == 0, "reset");
    } else {
        CHECK(hak_heap_destroy(*own) == 0, "destroy");
        *own = hak_heap_create("query", rng_below(rng, 2) == 0 ? 2 * MIB : 0);
    }
}

static void *work(void *number)
{
    static _Thread_local struct block blocks[SLOTS];
    struct rng rng = rng_seeded(seed * 1000 + (uintptr_t)number);
    hak_heap_t *own = hak_heap_create("query", 0);
    for (unsigned step = 0; step < steps; step++) {
        struct block *block = &blocks[rng_below(&rng, SLOTS)];
        uint32_t heap = rng_below(&rng, SHARED + 1), what = rng_below(&rng, 100);
        if (what < 55)
            take(block, heap < SHARED ? shared[heap] : NULL, &rng);
        else if (what < 75)
            drop(block, &rng);
        else if (what < 85)
            resize(block, &rng);
        else if (what < 99)
            exchange(block);
        else
            query(&own, &rng);
    }
    for (unsigned i = 0; i < SLOTS; i++)
        drop(&blocks[i], &rng);
    CHECK(hak_heap_destroy(own) == 0, "destroy");
    check_thread_done();
    return NULL;
}

static void generation(unsigned first)
{
    pthread_t threads[MOST_THREADS];
    for (unsigned i = 0; i < threads_at_once; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(first + i)) != 0)
            exit(2);
    for (unsigned i = 0; i < threads_at_once; i++)
        pthread_join(threads[i], NULL);
}

static void read_arguments(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        unsigned long value = strchr(argv[i], '=') != NULL ? strtoul(strchr(argv[i], '=') + 1, NULL, 10) : 0;
        if (strncmp(argv[i], "threads=", 8) == 0)
            threads_at_once = value < MOST_THREADS ? (unsigned)value : MOST_THREADS;
        else if (strncmp(argv[i], "steps=", 6) == 0)
            steps = (unsigned)value;
        else if (strncmp(argv[i], "seed=", 5) == 0)
            seed = value;
        else
            exit(2);
    }
}

int main(int argc, char **argv)
{
    struct rng rng = rng_seeded(7);
    read_arguments(argc, argv);
    watchdog_start(160, "stress of heaps");
    for (unsigned i = 0; i < SHARED; i++)
        shared[i] = hak_heap_create("shared", i % 3 == 0 ? 4 * MIB : 0);
    for (unsigned round = 0; round < 3; round++) {
        generation(round * MOST_THREADS);
        while (box.count > 0)
            drop(&box.blocks[--box.count], &rng);
        for (unsigned i = 0; i < SHARED; i++) {
            struct hak_heap_stats stats;
            CHECK(hak_heap_get_stats(shared[i], &stats, sizeof stats) == 0, "statistics");
            CHECK(stats.live_blocks == 0 && stats.live == 0 && stats.large == 0, "%zu blocks left in heap %u",
                  (size_t)stats.live_blocks, i);
            CHECK(stats.limit == 0 || stats.peak <= stats.limit, "peak %zu", (size_t)stats.peak);
        }
    }
    for (unsigned i = 0; i < SHARED; i++)
        CHECK(hak_heap_destroy(shared[i]) == 0, "destroy");
    return check_report("stress of heaps");
}
