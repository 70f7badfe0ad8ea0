/* Usage: test_limits [threads]
 * Tests that a program can use the whole limit of a heap. Free blocks in caches of other threads must not reduce it, whether these threads sleep,
 * run, end or are about to fork. A block that HAKMEM recalls from a cache must never be given to two threads. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hakmem.h"
#include "support/check.h"
#include "support/pattern.h"
#include "support/rng.h"
#include "support/watchdog.h"

enum { KIB = 1024, MIB = 1024 * KIB, MOST_THREADS = 200, MOST_BLOCKS = 70000, OF_EACH_SIZE = 40, LIVE = 64 };

static unsigned crowd = MOST_THREADS;
static hak_heap_t *heap;
static pthread_barrier_t turn;
static pthread_t threads[MOST_THREADS];
static void *blocks[MOST_BLOCKS];

static struct hak_heap_stats stats(void)
{
    struct hak_heap_stats now;
    CHECK(hak_heap_get_stats(heap, &now, sizeof now) == 0, "errno %d", errno);
    return now;
}

static void fill_cache(void)
{
    for (size_t size = 16; size <= 32 * KIB; size += size < KIB ? 16 : size / 4) {
        void *some[OF_EACH_SIZE];
        for (unsigned i = 0; i < OF_EACH_SIZE; i++)
            some[i] = hak_heap_malloc(heap, size);
        for (unsigned i = 0; i < OF_EACH_SIZE; i++)
            hak_free(some[i]);
    }
}

static void *fill_and_sleep(void *number)
{
    unsigned char *mine[LIVE];
    fill_cache();
    pthread_barrier_wait(&turn); /* The barrier lets the main thread use the heap. */
    pthread_barrier_wait(&turn);
    for (unsigned i = 0; i < LIVE; i++) {
        mine[i] = hak_heap_malloc(heap, 100);
        if (mine[i] != NULL)
            pattern_fill(mine[i], 100, (uintptr_t)number + i);
    }
    for (unsigned i = 0; i < LIVE; i++) {
        CHECK(mine[i] == NULL || pattern_holds(mine[i], 100, (uintptr_t)number + i), "a block with two holders");
        hak_free(mine[i]);
    }
    check_thread_done();
    return NULL;
}

static void begin_threads(unsigned count, void *(*body)(void *))
{
    for (uintptr_t i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, body, (void *)(i * 1000)) != 0)
            exit(2);
}

static void join_threads(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

/* Allocates blocks of this size until the heap refuses. Returns the sum of their bytes. */
static size_t usable(size_t size)
{
    size_t n = 0;
    while (n < MOST_BLOCKS && (blocks[n] = hak_heap_malloc(heap, size)) != NULL)
        n++;
    CHECK(n == MOST_BLOCKS || errno == ENOMEM, "errno %d", errno);
    CHECK(stats().cached == 0 || n == MOST_BLOCKS, "%zu bytes in caches at a refusal", (size_t)stats().cached);
    for (size_t i = 0; i < n; i++)
        hak_free(blocks[i]);
    return n * size;
}

/* Tests sizes of small, medium and large blocks that can each fill 90 % of the limit. */
static void all_is_usable(unsigned count, size_t limit)
{
    static const size_t sizes[] = {2000, 1000, 64 * KIB, 2 * MIB, 8 * KIB, 128 * KIB, 512};
    heap = hak_heap_create("limited", limit);
    pthread_barrier_init(&turn, NULL, count + 1);
    begin_threads(count, fill_and_sleep);
    pthread_barrier_wait(&turn);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t got = usable(sizes[i]);
        CHECK(got >= limit / 10 * 9 || got == MOST_BLOCKS * sizes[i], "%u threads: %zu KiB of %zu in blocks of %zu",
              count, got / KIB, limit / KIB, sizes[i]);
    }
    CHECK(stats().peak <= limit, "peak %zu", (size_t)stats().peak);
    pthread_barrier_wait(&turn);
    join_threads(count);
    pthread_barrier_destroy(&turn);
    CHECK(stats().live_blocks == 0, "%zu blocks live", (size_t)stats().live_blocks);
    CHECK(hak_heap_destroy(heap) == 0, "destroy");
}

static void limit_comes_later(unsigned count)
{
    heap = hak_heap_create("limited later", 0);
    pthread_barrier_init(&turn, NULL, count + 1);
    begin_threads(count, fill_and_sleep);
    pthread_barrier_wait(&turn);
    size_t limit = 4 * MIB;
    CHECK(hak_heap_set_limit(heap, limit) == 0, "set limit");
    CHECK(usable(2000) >= limit / 10 * 9, "after a limit was set");
    pthread_barrier_wait(&turn);
    join_threads(count);
    pthread_barrier_destroy(&turn);
    CHECK(hak_heap_destroy(heap) == 0, "destroy");
}

/* Threads allocate up to the limit. Each refusal recalls the blocks that other threads have in their caches at that moment. All threads keep their
 * blocks until the last one is done, because the limit would not be reached if they ran one after the other. */
static atomic_uint refusals;

static void *press(void *number)
{
    struct {
        unsigned char *at;
        size_t size;
    } live[LIVE] = {{NULL, 0}};
    struct rng rng = rng_seeded((uintptr_t)number + 7);
    for (size_t i = 0; i < 100 * LIVE; i++) {
        size_t n = rng_below(&rng, LIVE), size = 16 + rng_below(&rng, 1 + rng_below(&rng, 6000));
        CHECK(live[n].at == NULL || pattern_holds(live[n].at, live[n].size, (uintptr_t)live[n].at),
              "a block with two holders");
        hak_free(live[n].at);
        live[n].at = hak_heap_malloc(heap, live[n].size = size);
        if (live[n].at != NULL)
            pattern_fill(live[n].at, size, (uintptr_t)live[n].at);
        else
            refusals++;
    }
    pthread_barrier_wait(&turn);
    for (size_t n = 0; n < LIVE; n++)
        hak_free(live[n].at);
    check_thread_done();
    return NULL;
}

static void threads_run(unsigned count)
{
    heap = hak_heap_create("pressed", (size_t)count * 64 * KIB + 128 * KIB);
    pthread_barrier_init(&turn, NULL, count);
    refusals = 0;
    begin_threads(count, press);
    for (unsigned i = 0; i < 10; i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            void *block = hak_heap_malloc(heap, 100);
            hak_free(block);
            _exit(hak_heap_reset(heap) == 0 && usable(2000) > MIB / 8 && check_failures() == 0 ? 7 : 3);
        }
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7, "status %d",
              status);
    }
    join_threads(count);
    pthread_barrier_destroy(&turn);
    CHECK(refusals > 0 && stats().refused == refusals, "%u refusals, %zu counted", (unsigned)refusals,
          (size_t)stats().refused);
    CHECK(stats().live_blocks == 0 && stats().peak <= stats().limit, "%zu blocks live", (size_t)stats().live_blocks);
    CHECK(hak_heap_destroy(heap) == 0, "destroy");
}

int main(int argc, char **argv)
{
    watchdog_start(300, "limits");
    if (argc > 1)
        crowd = (unsigned)atoi(argv[1]);
    all_is_usable(1, 4 * MIB);
    all_is_usable(8, 4 * MIB);
    all_is_usable(crowd / 3, 16 * MIB);
    all_is_usable(crowd, 64 * MIB);
    limit_comes_later(8);
    threads_run(8);
    return check_report("limits");
}
