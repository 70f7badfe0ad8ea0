/* Usage: test_idle_threads [threads]
 * Compares the resident memory of a thread that has used the allocator a little and then waits with that of a thread that has not used it.
 * Counts this memory in pages, so that the result is equal on all machines. */
#include "support/check.h"
#include "support/procinfo.h"
#include "support/watchdog.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { MOST_THREADS = 4000, BLOCKS = 64, SIZES = 10, STACK_BYTES = 64 * 1024, MOST_BYTES_A_THREAD = 33 * 1024 };

static size_t threads;
static pthread_barrier_t all_alive, measured;

static void *live(void *blocks)
{
    char *block[BLOCKS];
    for (size_t i = 0; i < (size_t)blocks; i++) {
        block[i] = malloc((size_t)16 << i % SIZES);
        CHECK(block[i] != NULL, "block %zu", i);
        block[i][0] = 1;
    }
    for (size_t i = 0; i < (size_t)blocks; i++)
        free(block[i]);
    pthread_barrier_wait(&all_alive);
    pthread_barrier_wait(&measured);
    check_thread_done();
    return NULL;
}

/* Returns the growth of RSS while all threads are alive. */
static size_t bytes_of_all(size_t blocks)
{
    static pthread_t thread[MOST_THREADS];
    pthread_attr_t attributes;
    char *stacks =
        mmap(NULL, threads * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    pthread_attr_init(&attributes);
    pthread_barrier_init(&all_alive, NULL, (unsigned)threads + 1);
    pthread_barrier_init(&measured, NULL, (unsigned)threads + 1);
    size_t before = procinfo_rss_kib();
    for (size_t i = 0; i < threads; i++) {
        pthread_attr_setstack(&attributes, stacks + i * STACK_BYTES, STACK_BYTES);
        int error = pthread_create(&thread[i], &attributes, live, (void *)blocks);
        if (error != 0) {
            fprintf(stderr, "idle threads: thread %zu: pthread_create: error %d\n", i, error);
            _Exit(1);
        }
    }
    pthread_barrier_wait(&all_alive);
    size_t after = procinfo_rss_kib();
    pthread_barrier_wait(&measured);
    for (size_t i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    pthread_attr_destroy(&attributes);
    munmap(stacks, threads * STACK_BYTES);
    return (after - before) * 1024;
}

int main(int argc, char **argv)
{
    threads = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000;
    if (threads == 0 || threads > MOST_THREADS) {
        fprintf(stderr, "idle threads: from 1 to %d\n", MOST_THREADS);
        return 2;
    }
    watchdog_start(120, "idle threads");
    procinfo_forbid_huge_pages();
    size_t without = bytes_of_all(0) / threads, with = bytes_of_all(BLOCKS) / threads;
    printf("idle threads: %zu with %d blocks each: %zu bytes a thread, %zu without a block\n", threads, BLOCKS, with,
           without);
    fflush(stdout);
    CHECK(with > without, "the blocks have cost nothing");
    CHECK(with - without <= MOST_BYTES_A_THREAD, "%zu bytes a thread", with - without);
    return check_report("idle threads");
}
