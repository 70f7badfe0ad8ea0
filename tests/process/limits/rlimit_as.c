/* Usage: test_rlimit_as MIB...
 * Tests malloc under each limit of address space. The program must start. For each block size, malloc must serve at least 80 % of the space that
 * the limit leaves, in whole pages, and then return NULL with ENOMEM. After all blocks are freed, malloc must serve as much again, many times. */
#include "rlimit.h"

#include "support/check.h"
#include "support/core_page.h"
#include "support/procinfo.h"
#include "support/watchdog.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { CYCLES = 100, SERVED_PERCENT = 80, THREADS = 4 };

/* Tests block sizes of every tier. Under a large limit it leaves out the smallest sizes, because they would touch gigabytes. */
static void serve_every_size(size_t limit, size_t room)
{
    static const size_t size[] = {72, 1000, 16 << 10, 200 << 10, 1 << 20, 3 << 20};
    for (size_t i = 0; i < sizeof size / sizeof size[0]; i++) {
        if (limit / size[i] > (4u << 20) || room / size[i] < 16) {
            /* The chain would have too many blocks, or so few that the space after the last block may exceed a fifth. */
            continue;
        }
        struct chain chain = {NULL, 0};
        CHECK(chain_fill(&chain, size[i]), "limit %zu MiB, blocks of %zu: errno %d", limit >> 20, size[i], errno);
        size_t page = core_page(), each = size[i] < page ? size[i] : (size[i] + page - 1) / page * page;
        size_t served = chain.count * each;
        printf("  limit %4zu MiB: %8zu blocks of %7zu bytes, %3zu %% of the %zu KiB left\n", limit >> 20, chain.count,
               size[i], served * 100 / room, room >> 10);
        CHECK(served >= room / 100 * SERVED_PERCENT, "limit %zu MiB, blocks of %zu: %zu bytes served, %zu left",
              limit >> 20, size[i], served, room);
        chain_free(&chain);
    }
}

static void fail_many_times(size_t limit, size_t room)
{
    size_t size = room / 2048 / 16 * 16 + 100;
    size_t first = 0;
    struct chain chain = {NULL, 0};
    for (int cycle = 0; cycle < CYCLES; cycle++) {
        CHECK(chain_fill(&chain, size), "limit %zu MiB, cycle %d: errno %d", limit >> 20, cycle, errno);
        if (cycle == 0) {
            first = chain.count;
        }
        size_t slack = first / 20;
        CHECK(chain.count + slack >= first && chain.count <= first + slack,
              "limit %zu MiB, cycle %d: %zu blocks, first %zu", limit >> 20, cycle, chain.count, first);
        errno = 0;
        CHECK(calloc(room, 2) == NULL && errno == ENOMEM, "calloc beyond the limit: errno %d", errno);
        errno = 0;
        CHECK(realloc(chain.head, 2 * room) == NULL && errno == ENOMEM, "realloc beyond the limit: errno %d", errno);
        void *untouched = &chain;
        CHECK(posix_memalign(&untouched, 4096, 2 * room) == ENOMEM && untouched == &chain,
              "posix_memalign beyond the limit");
        chain_free(&chain);
    }
    printf("  limit %4zu MiB: %d cycles of %zu blocks of %zu bytes\n", limit >> 20, CYCLES, first, size);
}

static void *allocate_in_thread(void *argument)
{
    void *p = malloc(1000);
    CHECK(p != NULL, "a thread's malloc under the limit");
    free(p);
    check_thread_done();
    return argument;
}

/* Checks that threads can start, because their stacks need a part of the limit too. */
static void threads_start(void)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 128 * 1024);
    for (int round = 0; round < 20; round++) {
        pthread_t thread[THREADS];
        int started = 0;
        int error = 0;
        while (started < THREADS && !error) {
            error = pthread_create(&thread[started], &attributes, allocate_in_thread, NULL);
            started += !error;
        }
        CHECK(!error, "thread %d: pthread_create: %d", started, error);
        while (started-- > 0) {
            pthread_join(thread[started], NULL);
        }
    }
    pthread_attr_destroy(&attributes);
}

static int under_limit(size_t limit)
{
    size_t taken = procinfo_not_heap_kib() << 10;
    CHECK(taken < limit, "taken %zu", taken);
    threads_start();
    serve_every_size(limit, limit - taken);
    fail_many_times(limit, limit - taken);
    serve_every_size(limit, limit - taken);
    fflush(stdout);
    char name[64];
    snprintf(name, sizeof name, "rlimit_as %zu MiB", limit >> 20);
    return check_report(name);
}

int main(int argc, char **argv)
{
    watchdog_start(240, "rlimit_as");
    if (argc == 3 && strcmp(argv[1], "under") == 0) {
        return under_limit(strtoul(argv[2], NULL, 10) << 20);
    }
    for (int i = 1; i < argc; i++) {
        char *arguments[] = {argv[0], "under", argv[i], NULL};
        int status = rlimit_run_self(arguments, strtoul(argv[i], NULL, 10), NULL, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "limit %s MiB: wait status 0x%x", argv[i],
              (unsigned)status);
    }
    return check_report("rlimit_as");
}
