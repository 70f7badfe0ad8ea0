/* Usage: test_pool_fork [forks]
 * Tests forks while dozens of threads begin and end and one thread trims repeatedly. The child, which starts threads of its own, must not
 * hang on an operation that was not complete at the fork. */
#include "support/check.h"
#include "support/pattern.h"
#include "support/watchdog.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef STRESS_HAK
#include "hakmem.h"
#define malloc hak_malloc
#define free hak_free
#define malloc_trim hak_malloc_trim
#endif

enum { CROWD = 24, BLOCKS = 40, ROUNDS_OF_CHILD = 3, EXITED_WELL = 7 };

static atomic_bool over;

static void *live(void *argument)
{
    unsigned char *block[BLOCKS];
    size_t me = (size_t)argument;
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t size = (size_t)16 << i % 9;
        block[i] = malloc(size);
        CHECK(block[i] != NULL, "%zu bytes", size);
        pattern_fill(block[i], size, me + i);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        CHECK(pattern_holds(block[i], (size_t)16 << i % 9, me + i), "block %zu", i);
        free(block[i]);
    }
    check_thread_done();
    return NULL;
}

static void crowd(void)
{
    pthread_t thread[CROWD];
    size_t born = 0;
    for (; born < CROWD; born++)
        if (pthread_create(&thread[born], NULL, live, (void *)(born * BLOCKS)) != 0)
            break;
    for (size_t i = 0; i < born; i++)
        pthread_join(thread[i], NULL);
}

static void *keep_crowding(void *unused)
{
    while (!over)
        crowd();
    return unused;
}

static void *keep_trimming(void *unused)
{
    while (!over)
        malloc_trim(0);
    return unused;
}

/* Does the work of a child. Under a sanitizer it starts no threads. The thread sanitizer ends a child that has threads. The address sanitizer of
 * GCC 12 does not take its allocator's locks for the fork, and a thread of the child needs that allocator for its thread-local storage. */
static void work_as_child(void)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    live(NULL);
#else
    crowd();
#endif
}

static void child(void)
{
    watchdog_start(60, "pool fork's child");
    for (int round = 0; round < ROUNDS_OF_CHILD; round++) {
        work_as_child();
        malloc_trim(0);
    }
    _exit(check_failures() == 0 ? EXITED_WELL : 1);
}

int main(int argc, char **argv)
{
    unsigned long forks = argc > 1 ? strtoul(argv[1], NULL, 10) : 60;
    pthread_t crowding, trimming;
    watchdog_start(240, "pool fork");
    CHECK(pthread_create(&crowding, NULL, keep_crowding, NULL) == 0, "no thread");
    CHECK(pthread_create(&trimming, NULL, keep_trimming, NULL) == 0, "no thread");
    for (unsigned long i = 0; i < forks; i++) {
        int status = -1;
        pid_t pid = fork();
        if (pid == 0)
            child();
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == EXITED_WELL,
              "fork %lu: wait status 0x%x", i, (unsigned)status);
    }
    over = true;
    pthread_join(crowding, NULL);
    pthread_join(trimming, NULL);
    return check_report("pool fork");
}
