/* Usage: test_moves BLOCKS [loose]
 * Frees three quarters of many blocks, and then moves blocks out of sparse slabs, as hak_should_move() says. The moves must come to an end, keep all
 * contents, and leave at most half as much free memory as live memory. With `loose`, the amount of memory is not checked, because an option makes
 * HAKMEM keep freed blocks. */
#include "hakmem.h"
#include "support/check.h"
#include "support/pattern.h"
#include "support/rng.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BLOCKS = 200000, THREADS = 4, MOST_PASSES = 12, KEPT_OF = 4, EQUAL_SIZE = 200 };

/* The lock is held while a thread moves or replaces the block. */
struct slot {
    pthread_mutex_t lock;
    char *block;
    size_t size;
    uint64_t seed;
};

static struct slot slots[MOST_BLOCKS];
static size_t count;
static bool loose;

/* Half of the sizes are below 128 bytes, and few are above 2 KiB, as in a key-value store. */
static size_t random_size(struct rng *rng)
{
    unsigned percent = rng_below(rng, 100);
    if (percent < 50)
        return 16 + rng_below(rng, 112);
    if (percent < 80)
        return 64 + rng_below(rng, 448);
    return percent < 95 ? 256 + rng_below(rng, 1792) : 1024 + rng_below(rng, 7168);
}

static void put(struct slot *slot, size_t size, uint64_t seed)
{
    *slot = (struct slot){PTHREAD_MUTEX_INITIALIZER, hak_malloc(size), size, seed};
    pattern_fill(slot->block, size, seed);
}

static void drop(struct slot *slot)
{
    CHECK(slot->block == NULL || pattern_holds(slot->block, slot->size, slot->seed), "%zu bytes", slot->size);
    hak_free(slot->block);
    slot->block = NULL;
}

static void fill(size_t from, size_t to, size_t size)
{
    struct rng rng = rng_seeded(from + 1);
    for (size_t i = from; i < to; i++)
        put(&slots[i], size != 0 ? size : random_size(&rng), i);
}

static void thin(size_t from, size_t to, bool at_random)
{
    struct rng rng = rng_seeded(to);
    for (size_t i = from; i < to; i++)
        if (at_random ? rng_below(&rng, KEPT_OF) != 0 : i % KEPT_OF != 0)
            drop(&slots[i]);
    hak_malloc_trim(0);
}

/* Moves each block once if it should move. Returns the number of moved blocks. */
static size_t pass(size_t from, size_t to)
{
    size_t moved = 0;
    for (size_t i = from; i < to; i++) {
        struct slot *slot = &slots[i];
        pthread_mutex_lock(&slot->lock);
        if (hak_should_move(slot->block)) {
            char *block = hak_malloc(slot->size);
            memcpy(block, slot->block, slot->size);
            hak_free(slot->block);
            slot->block = block;
            moved++;
        }
        pthread_mutex_unlock(&slot->lock);
    }
    return moved;
}

static size_t footprint(void)
{
    struct hak_stats stats;
    hak_malloc_trim(0);
    CHECK(hak_get_stats(&stats, sizeof stats) == 0, "no statistics");
    return stats.footprint;
}

/* Moves all blocks until none should move, checks how much memory is left, and frees the blocks. */
static void finish(const char *what, size_t at_first)
{
    size_t live = 0, passes = 1, before = footprint();
    while (pass(0, count) > 0 && passes < 2 * MOST_PASSES)
        passes++;
    CHECK(passes <= MOST_PASSES, "%s: %zu passes", what, passes);
    for (size_t i = 0; i < count; i++)
        live += slots[i].block != NULL ? slots[i].size : 0;
    size_t after = footprint() - at_first;
    CHECK(loose || after <= live + live / 2, "%s: %zu bytes for %zu, after %zu passes", what, after, live, passes);
    CHECK(loose || after <= before, "%s: grew from %zu to %zu", what, before, after);
    for (size_t i = 0; i < count; i++)
        drop(&slots[i]);
}

static void test_alone(const char *what, size_t size, bool at_random)
{
    size_t at_first = footprint();
    fill(0, count, size);
    thin(0, count, at_random);
    CHECK(loose || footprint() - at_first > count / KEPT_OF * 2 * size, "%s: nothing to save", what);
    finish(what, at_first);
}

static pthread_barrier_t barrier;

struct part {
    size_t from, to;
    bool all; /* move the blocks of all threads */
};

/* Moves blocks while the other threads move theirs. If all threads move all blocks, also replaces some blocks, like a program that runs. */
static void *move_beside(void *given)
{
    const struct part *part = given;
    struct rng rng = rng_seeded(part->from);
    fill(part->from, part->to, 0);
    pthread_barrier_wait(&barrier);
    thin(part->from, part->to, true);
    pthread_barrier_wait(&barrier);
    for (size_t passes = 0; passes < MOST_PASSES && pass(part->all ? 0 : part->from, part->all ? count : part->to) > 0;
         passes++)
        for (size_t n = 0; part->all && n < count / 100; n++) {
            struct slot *slot = &slots[rng_below(&rng, (uint32_t)count)];
            pthread_mutex_lock(&slot->lock);
            if (slot->block != NULL) {
                drop(slot);
                slot->block = hak_malloc(slot->size);
                pattern_fill(slot->block, slot->size, slot->seed);
            }
            pthread_mutex_unlock(&slot->lock);
        }
    check_thread_done();
    return NULL;
}

static void test_threads(const char *what, bool all)
{
    pthread_t threads[THREADS];
    struct part parts[THREADS];
    size_t at_first = footprint();
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++) {
        parts[i] = (struct part){count / THREADS * i, count / THREADS * (i + 1), all};
        CHECK(pthread_create(&threads[i], NULL, move_beside, &parts[i]) == 0, "no thread");
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
    finish(what, at_first);
}

static void test_no_moves(void)
{
    int local = 0;
    hak_heap_t *heap = hak_heap_create("moves", 0);
    void *blocks[] = {NULL, &local, hak_malloc(40000), hak_malloc(3 << 20), hak_heap_malloc(heap, 100)};
    errno = 7;
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        CHECK(hak_should_move(blocks[i]) == 0, "block %zu", i);
    CHECK(errno == 7, "errno is %d", errno);
    hak_free(blocks[2]);
    hak_free(blocks[3]);
    hak_heap_destroy(heap);
}

int main(int argc, char **argv)
{
    count = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    loose = argc > 2;
    if (count == 0 || count > MOST_BLOCKS || (loose && strcmp(argv[2], "loose") != 0))
        return 2;
    count -= count % (KEPT_OF * THREADS);
    test_no_moves();
    test_alone("mixed sizes", 0, true);
    test_alone("equal slabs", EQUAL_SIZE, false);
    test_threads("own blocks", false);
    test_threads("common blocks", true);
    return check_report("moves");
}
