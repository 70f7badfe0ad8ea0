/* Usage: test_many_threads [threads]
 * Tests thousands of threads that are alive at once. Each allocates blocks that another thread frees. Resident memory must not grow over three
 * rounds. */
#include "support/check.h"
#include "support/pattern.h"
#include "support/procinfo.h"
#include "support/watchdog.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_THREADS = 8000, BLOCKS = 12, ROUNDS = 3, STACK_BYTES = 64 * 1024 };

static const size_t size[BLOCKS] = {1, 16, 24, 64, 100, 100, 256, 1000, 1024, 3000, 9000, 40000};
static void *block[MOST_THREADS][BLOCKS];
static size_t threads;
static pthread_barrier_t all_allocated;
static pthread_barrier_t measured;

static void *live(void *argument)
{
    size_t me = (size_t)(uintptr_t)argument;
    for (size_t i = 0; i < BLOCKS; i++) {
        block[me][i] = malloc(size[i]);
        CHECK(block[me][i] != NULL, "%zu bytes", size[i]);
        pattern_fill(block[me][i], size[i], me * BLOCKS + i);
    }
    pthread_barrier_wait(&all_allocated);
    pthread_barrier_wait(&measured);
    /* Because the number of threads is no multiple of 7, each thread frees the blocks of a different thread. */
    size_t other = (me * 7 + 1) % threads;
    for (size_t i = 0; i < BLOCKS; i++) {
        CHECK(pattern_holds(block[other][i], size[i], other * BLOCKS + i), "thread %zu, block %zu", other, i);
        free(block[other][i]);
    }
    check_thread_done();
    return NULL;
}

/* Returns RSS while all threads are alive. */
static size_t one_round(void)
{
    static pthread_t thread[MOST_THREADS];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_barrier_init(&all_allocated, NULL, (unsigned)threads + 1);
    pthread_barrier_init(&measured, NULL, (unsigned)threads + 1);
    for (size_t i = 0; i < threads; i++) {
        int error = pthread_create(&thread[i], &attributes, live, (void *)(uintptr_t)i);
        if (error) {
            /* The test must end at once because the threads that wait at the barrier cannot be joined. */
            fprintf(stderr, "many threads: thread %zu: pthread_create: error %d\n", i, error);
            _Exit(1);
        }
    }
    pthread_barrier_wait(&all_allocated);
    size_t rss = procinfo_rss_kib();
    pthread_barrier_wait(&measured);
    for (size_t i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
    }
    pthread_barrier_destroy(&all_allocated);
    pthread_barrier_destroy(&measured);
    pthread_attr_destroy(&attributes);
    return rss;
}

int main(int argc, char **argv)
{
    threads = argc > 1 ? strtoul(argv[1], NULL, 10) : 4000;
    if (threads == 0 || threads > MOST_THREADS || threads % 7 == 0) {
        fprintf(stderr, "many threads: from 1 to %d, and no multiple of 7\n", MOST_THREADS);
        return 2;
    }
    watchdog_start(120, "many threads");
    procinfo_forbid_huge_pages();
    size_t alive = 0;
    size_t dead = 0;
    for (int round = 0; round < ROUNDS; round++) {
        size_t rss = one_round();
        /* The trim purges the memory of ended threads, which would otherwise stay resident for some time, so that the rounds can be compared. */
        malloc_trim(0);
        size_t after = procinfo_rss_kib();
        printf("many threads: round %d: RSS %zu KiB with %zu alive, %zu KiB after\n", round, rss, threads, after);
        if (round == 0) {
            alive = rss;
            dead = after;
        }
        CHECK(rss <= alive + alive / 10 + 1024, "RSS grew from %zu to %zu KiB", alive, rss);
        CHECK(after <= dead + dead / 10 + 2048, "RSS grew from %zu to %zu KiB", dead, after);
    }
    fflush(stdout);
    return check_report("many threads");
}
