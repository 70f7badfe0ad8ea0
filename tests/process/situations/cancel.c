/* Usage: test_cancel deferred|async [threads]
 * Tests a thousand or more threads that are cancelled while they use the heap. Cleanup handlers free their blocks, their thread caches end,
 * and the heap must not grow.
 *   deferred  a thread is cancelled at its next cancellation point, which lies between calls of malloc because malloc is no cancellation point
 *   async     a thread is cancelled at once while it reads its blocks; cancellation is disabled during calls of malloc, because no
 *             standard makes malloc safe for it */
#include "support/check.h"
#include "support/pattern.h"
#include "support/procinfo.h"
#include "support/watchdog.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { AT_ONCE = 8, HELD = 40, SPARE_KIB = 12 << 10 };

static bool async;
static _Atomic size_t x_cancelled;
static int null_device[2];

struct held {
    void *block[HELD];
    size_t size[HELD];
};

static void let_go(void *context)
{
    struct held *held = context;
    for (size_t i = 0; i < HELD; i++) {
        CHECK(!held->block[i] || pattern_holds(held->block[i], held->size[i], i), "a block of %zu bytes",
              held->size[i]);
        free(held->block[i]);
    }
    free(held);
    x_cancelled++;
    check_thread_done();
}

static void replace(struct held *held, size_t at, size_t size)
{
    int before = 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    free(held->block[at]);
    held->block[at] = malloc(size);
    held->size[at] = size;
    CHECK(held->block[at] != NULL, "%zu bytes", size);
    pattern_fill(held->block[at], size, at);
    pthread_setcancelstate(before, NULL);
}

/* Reads the blocks repeatedly. Asynchronous cancellation may end the thread during these reads. */
static void compute(const struct held *held)
{
    for (size_t i = 0; i < HELD; i++) {
        const char *volatile bytes = held->block[i];
        for (size_t at = 0; bytes && at < held->size[i]; at += 64) {
            (void)*(const volatile char *)(bytes + at);
        }
    }
}

static void *work(void *argument)
{
    struct held *held = calloc(1, sizeof *held);
    int ignored;
    pthread_cleanup_push(let_go, held);
    for (size_t i = (size_t)(uintptr_t)argument;; i++) {
        replace(held, i % HELD, i % 64 == 63 ? 70000 : i * 61 % 3000 + 1);
        if (async) {
            pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &ignored);
            compute(held);
            pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &ignored);
        } else if (i % 7 == 6) {
            ssize_t none = write(null_device[1], "", 0); /* This call is a cancellation point. */
            (void)none;
        }
    }
    pthread_cleanup_pop(0);
    return NULL;
}

static void some_threads(size_t from)
{
    pthread_t thread[AT_ONCE];
    for (size_t t = 0; t < AT_ONCE; t++) {
        CHECK(pthread_create(&thread[t], NULL, work, (void *)(uintptr_t)(from + t)) == 0, "thread %zu", from + t);
    }
    usleep((useconds_t)(from % 11 * 100)); /* varies the threads' progress at their cancellation */
    for (size_t t = 0; t < AT_ONCE; t++) {
        CHECK(pthread_cancel(thread[t]) == 0, "thread %zu", from + t);
    }
    for (size_t t = 0; t < AT_ONCE; t++) {
        void *result = NULL;
        CHECK(pthread_join(thread[t], &result) == 0, "thread %zu", from + t);
        CHECK(result == PTHREAD_CANCELED, "thread %zu ended by itself", from + t);
    }
}

int main(int argc, char **argv)
{
    size_t rss = 0, threads = argc == 3 ? strtoul(argv[2], NULL, 10) : 1000;
    watchdog_start(argc == 3 ? 600 : 60, "cancel");
    procinfo_forbid_huge_pages();
    async = argc >= 2 && strcmp(argv[1], "async") == 0;
    CHECK(pipe(null_device) == 0, "a pipe");
    for (size_t from = 0; from < threads; from += AT_ONCE) {
        some_threads(from);
        rss = from < threads / 10 ? procinfo_rss_kib() : rss;
    }
    CHECK(x_cancelled == (threads + AT_ONCE - 1) / AT_ONCE * AT_ONCE, "%zu were cancelled", (size_t)x_cancelled);
    CHECK(procinfo_rss_kib() <= rss + SPARE_KIB + procinfo_of_ended_kib(threads), "%zu KiB, %zu after a tenth",
          procinfo_rss_kib(), rss);
    return check_report(async ? "cancel async" : "cancel deferred");
}
