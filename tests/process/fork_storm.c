/* Usage: test_fork_storm [forks]
 * Tests forks from a process whose other threads never stop allocating. Each child checks and frees the parent's blocks, and allocates.
 * Some children also start threads or fork. A watchdog ends a child that hangs, and the test counts it as failed. */
#include "support/check.h"
#include "support/pattern.h"
#include "support/rng.h"
#include "support/watchdog.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 2, SHARED = 100, CHILD_BLOCKS = 200, CHILD_SECONDS = 30, BAD_CHILD = 3 };

/* The parent allocates these blocks. Every child frees them in its own copy of the memory. */
static void *shared[SHARED];
static size_t shared_size[SHARED];
static atomic_bool x_stop;

static size_t draw_size(struct rng *rng)
{
    uint32_t draw = rng_below(rng, 1000);
    return 1 + (draw < 1 ? rng_below(rng, 2u << 20) : draw < 12 ? rng_below(rng, 100000) : rng_below(rng, 1500));
}

/* Allocates and frees `steps` times. Returns false if any block had wrong contents. */
static bool use_heap(struct rng *rng, unsigned steps)
{
    void *block[CHILD_BLOCKS] = {NULL};
    size_t size[CHILD_BLOCKS];
    bool good = true;
    for (unsigned i = 0; i < steps; i++) {
        uint32_t slot = rng_below(rng, CHILD_BLOCKS);
        if (block[slot]) {
            good = good && pattern_holds(block[slot], size[slot], slot);
            free(block[slot]);
            block[slot] = NULL;
        } else {
            size[slot] = draw_size(rng);
            block[slot] = malloc(size[slot]);
            good = good && block[slot];
            pattern_fill(block[slot], size[slot], slot);
        }
    }
    for (size_t i = 0; i < CHILD_BLOCKS; i++) {
        good = good && (!block[i] || pattern_holds(block[i], size[i], i));
        free(block[i]);
    }
    return good;
}

static void *never_stop(void *argument)
{
    struct rng rng = rng_seeded((uintptr_t)argument);
    while (!atomic_load(&x_stop)) {
        CHECK(use_heap(&rng, 2000), "in a thread of the parent");
    }
    check_thread_done();
    return NULL;
}

static void *fill_shared(void *argument)
{
    struct rng rng = rng_seeded((uintptr_t)argument);
    for (size_t i = (uintptr_t)argument; i < SHARED; i += THREADS) {
        shared_size[i] = draw_size(&rng);
        shared[i] = malloc(shared_size[i]);
        CHECK(shared[i] != NULL, "%zu bytes", shared_size[i]);
        pattern_fill(shared[i], shared_size[i], 1000 + i);
    }
    check_thread_done();
    return NULL;
}

static void *use_heap_in_thread(void *argument)
{
    struct rng rng = rng_seeded((uintptr_t)argument);
    return use_heap(&rng, 200) ? argument : NULL;
}

static bool threads_work(uintptr_t seed)
{
    pthread_t thread[2];
    bool good = true;
    for (unsigned i = 0; i < 2; i++) {
        good = good && pthread_create(&thread[i], NULL, use_heap_in_thread, (void *)(seed + i)) == 0;
    }
    for (unsigned i = 0; good && i < 2; i++) {
        void *result = NULL;
        good = pthread_join(thread[i], &result) == 0 && result;
    }
    return good;
}

static bool grandchild_works(struct rng *rng)
{
    pid_t grandchild = fork();
    if (grandchild == 0) {
        watchdog_start(CHILD_SECONDS, "a grandchild");
        _exit(use_heap(rng, 300) ? 0 : BAD_CHILD);
    }
    int status = -1;
    return grandchild > 0 && waitpid(grandchild, &status, 0) == grandchild && status == 0;
}

_Noreturn static void child(unsigned number)
{
    struct rng rng = rng_seeded(number + 1);
    bool good = true;
    watchdog_start(CHILD_SECONDS, "a child of the fork storm");
    for (size_t i = 0; i < SHARED; i++) {
        good = good && pattern_holds(shared[i], shared_size[i], 1000 + i);
        if (i % 2) {
            free(shared[i]);
        } else {
            good = good && (shared[i] = realloc(shared[i], shared_size[i] + 500)) != NULL &&
                   pattern_holds(shared[i], shared_size[i], 1000 + i);
        }
    }
    good = good && use_heap(&rng, 300);
    good = good && (number % 4 || threads_work(number + 1));
    good = good && (number % 16 || grandchild_works(&rng));
    if (number % 8 == 5 && good) {
        exit(0); /* exit() is tested too because it runs atexit handlers and destructors. */
    }
    _exit(good ? 0 : BAD_CHILD);
}

int main(int argc, char **argv)
{
    unsigned forks = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 20000;
    pthread_t thread[THREADS];
    for (uintptr_t t = 0; t < THREADS; t++) {
        pthread_create(&thread[t], NULL, fill_shared, (void *)t);
    }
    for (size_t t = 0; t < THREADS; t++) {
        pthread_join(thread[t], NULL);
    }
    for (uintptr_t t = 0; t < THREADS; t++) {
        CHECK(pthread_create(&thread[t], NULL, never_stop, (void *)(t + 77)) == 0, "thread");
    }
    struct rng rng = rng_seeded(5);
    for (unsigned n = 0; n < forks; n++) {
        watchdog_start(2 * CHILD_SECONDS, "the parent of the fork storm");
        if (n % 5 == 0) {
            CHECK(use_heap(&rng, 200), "between forks");
        }
        pid_t pid = fork();
        if (pid == 0) {
            child(n);
        }
        int status = -1;
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid, "fork %u: errno %d", n, errno);
        CHECK(status == 0, "child %u: wait status 0x%x", n, (unsigned)status);
        if (n % 2000 == 1999) {
            printf("fork storm: %u of %u\n", n + 1, forks);
            fflush(stdout);
        }
    }
    watchdog_start(2 * CHILD_SECONDS, "the end of the fork storm");
    atomic_store(&x_stop, true);
    for (size_t t = 0; t < THREADS; t++) {
        pthread_join(thread[t], NULL);
    }
    return check_report("fork storm");
}
