/* Usage: test_joined handed|known|inbox|large|pinned THREADS
 * Tests that the free memory of threads returns to the system after they ended and were joined. The main thread then sleeps and does not call the
 * allocator.
 *   handed  every second thread frees the blocks that another thread allocated
 *   known   the same as handed, but each thread first calls the allocator; if HAKMEM does not count threads, it knows only threads that called it,
 *           and may take the end of one such thread for the end of the last
 *   inbox   the threads free blocks that the main thread allocated
 *   large   the blocks have mappings of their own
 *   pinned  each thread leaves one block in 64 in use */
#include "support/check.h"
#include "support/core_page.h"
#include "support/procinfo.h"
#include "support/watchdog.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_THREADS = 300, HEAP = 128 << 20, BLOCK = 1000, LARGE = 2 << 20, KEPT = 64 };
enum { MAY_STAY_KIB = 4096, OF_STACK_KIB = 8, ENOUGH_KIB = HEAP / 2 / 1024, MOST_MS = 10000 };
enum { BLOCKS = HEAP / BLOCK };

static void *block[BLOCKS];
static unsigned threads;
static pthread_barrier_t full;
static size_t each = BLOCK;

struct range {
    size_t from, to;
};

/* Returns the part of the blocks that thread number t allocates or frees. */
static struct range part(size_t t, size_t parts)
{
    size_t all = HEAP / each;
    return (struct range){all * t / parts, all * (t + 1) / parts};
}

static void allocate(struct range range)
{
    for (size_t i = range.from; i < range.to; i++) {
        block[i] = malloc(each);
        memset(block[i], 0x5a, each);
    }
}

static void drop(struct range range, size_t kept)
{
    for (size_t i = range.from; i < range.to; i++) {
        if (kept == 0 || i % kept != 0) {
            free(block[i]);
        }
    }
}

static void *live_handed(void *number)
{
    size_t t = (size_t)number;
    if (t % 2 == 0) {
        allocate(part(t / 2, threads / 2));
    }
    pthread_barrier_wait(&full);
    pthread_barrier_wait(&full);
    if (t % 2 == 1) {
        drop(part(t / 2, threads / 2), 0);
    }
    return NULL;
}

static void *live_known(void *number)
{
    void *volatile first = malloc(1);
    free(first);
    return live_handed(number);
}

static void *live_inbox(void *number)
{
    pthread_barrier_wait(&full);
    pthread_barrier_wait(&full);
    drop(part((size_t)number, threads), 0);
    return NULL;
}

static size_t live_kept;

static void *live_own(void *number)
{
    allocate(part((size_t)number, threads));
    pthread_barrier_wait(&full);
    pthread_barrier_wait(&full);
    drop(part((size_t)number, threads), live_kept);
    return NULL;
}

/* Returns the resident KiB at the time when all blocks are in use. */
static size_t live_and_end(void *(*live)(void *))
{
    static pthread_t thread[MOST_THREADS];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * 1024);
    pthread_barrier_init(&full, NULL, threads + 1);
    for (size_t t = 0; t < threads; t++) {
        CHECK(pthread_create(&thread[t], &attributes, live, (void *)t) == 0, "thread %zu", t);
    }
    pthread_attr_destroy(&attributes);
    pthread_barrier_wait(&full);
    size_t rss = procinfo_rss_kib();
    pthread_barrier_wait(&full);
    for (size_t t = 0; t < threads; t++) {
        pthread_join(thread[t], NULL);
    }
    return rss;
}

/* Waits until at most `enough` KiB are resident, or MOST_MS have passed. Does not call the allocator. Returns the resident KiB. */
static size_t rss_in_time(size_t enough)
{
    size_t rss = procinfo_rss_kib();
    for (int ms = 0; rss > enough && ms < MOST_MS; ms += 50) {
        usleep(50000);
        rss = procinfo_rss_kib();
    }
    return rss;
}

int main(int argc, char **argv)
{
    const char *name = argc > 2 ? argv[1] : "";
    threads = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
    bool inbox = strcmp(name, "inbox") == 0, pinned = strcmp(name, "pinned") == 0;
    if (threads < 2 || threads > MOST_THREADS || threads % 2 != 0) {
        return 2;
    }
    watchdog_start(120, "joined");
    each = strcmp(name, "large") == 0 ? LARGE : pinned ? core_page() : BLOCK;
    live_kept = pinned ? KEPT : 0;
    memset(block, 0, sizeof block); /* counts the table's pages in `before` */
    size_t before = procinfo_rss_kib();
    if (inbox) {
        allocate(part(0, 1));
    }
    bool handed = strcmp(name, "handed") == 0, known = strcmp(name, "known") == 0;
    size_t alive = live_and_end(handed ? live_handed : known ? live_known : inbox ? live_inbox : live_own);
    size_t stays = before + MAY_STAY_KIB + threads * OF_STACK_KIB + (pinned ? HEAP / KEPT / 1024 : 0) +
                   procinfo_of_ended_kib(threads);
    size_t after = rss_in_time(stays);
    printf("joined %s, %u threads: %zu KiB before, %zu alive, %zu at the end\n", name, threads, before, alive, after);
    CHECK(alive > before + ENOUGH_KIB, "%zu KiB alive, %zu before", alive, before);
    CHECK(after <= stays, "%zu KiB stay, %zu may", after, stays);
    return check_report("joined");
}
