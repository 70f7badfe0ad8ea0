/* Usage: test_excess large|medium|small|vectors|threads|scattered
 * Tests that RSS falls at once after a program has freed most of its memory and makes no more calls. So no purge by age can help. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "support/procinfo.h"
#include "support/watchdog.h"

enum {
    KIB = 1024,
    MIB = 1024 * KIB,
    TOTAL_MIB = 96,
    MOST_MIB = 32,
    MOST_OF_THREADS_MIB = 56,
    SCATTERED_MIB = 320, /* more than a purge of excess may take at once again and again */
    MOST_SCATTERED_MIB = 120,
    KEPT_OF = 20,
    THREADS = 2,
    MOST_BLOCKS = TOTAL_MIB * MIB / (4 * KIB)
};

static pthread_barrier_t all_at_once;

/* Allocates blocks of `least` to 4 * `least` bytes, `total` bytes in all, waits for the other threads, and frees the blocks. */
static void rise_and_fall(size_t least, size_t total)
{
    void **blocks = malloc(MOST_BLOCKS * sizeof *blocks);
    size_t count = 0;
    for (size_t bytes = 0; bytes < total; count++) {
        size_t size = least + count * 7919 % (least * 3);
        CHECK((blocks[count] = malloc(size)) != NULL, "%zu bytes", size);
        memset(blocks[count], 1, size);
        bytes += size;
    }
    pthread_barrier_wait(&all_at_once);
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
    free(blocks);
}

static void *share(void *unused)
{
    rise_and_fall(4 * KIB, (size_t)TOTAL_MIB * MIB / THREADS);
    pthread_barrier_wait(&all_at_once);
    pthread_barrier_wait(&all_at_once);
    check_thread_done();
    return unused;
}

/* Lets threads free their blocks at the same time. The purge of one thread must not keep those of the others from what it leaves. */
static size_t rss_beside_threads(void)
{
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, share, NULL) == 0, "thread %u", i);
    pthread_barrier_wait(&all_at_once);
    pthread_barrier_wait(&all_at_once);
    size_t kib = procinfo_rss_kib();
    pthread_barrier_wait(&all_at_once);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return kib;
}

/* Allocates blocks of 4 to 64 KiB, and frees them in random order, except one of KEPT_OF. So most slabs keep a block. */
static void scatter(void)
{
    static void *blocks[SCATTERED_MIB * MIB / (4 * KIB)];
    size_t count = 0;
    for (size_t bytes = 0; bytes < (size_t)SCATTERED_MIB * MIB; count++) {
        size_t size = 4 * KIB + count * 7919 % (60 * KIB);
        CHECK((blocks[count] = malloc(size)) != NULL, "%zu bytes", size);
        memset(blocks[count], 1, size);
        bytes += size;
    }
    for (size_t left = count; left > count / KEPT_OF; left--) {
        size_t at = (size_t)rand() % left;
        free(blocks[at]);
        blocks[at] = blocks[left - 1];
    }
}

static void grow_vectors(void)
{
    enum { VECTORS = 12 };
    char *vectors[VECTORS];
    for (unsigned i = 0; i < VECTORS; i++) {
        vectors[i] = NULL;
        for (size_t size = 64; size <= TOTAL_MIB / VECTORS * MIB; size *= 2) {
            vectors[i] = realloc(vectors[i], size);
            CHECK(vectors[i] != NULL, "%zu bytes", size);
            memset(vectors[i] + size / 2, 1, size / 2);
        }
    }
    for (unsigned i = 0; i < VECTORS; i++)
        free(vectors[i]);
}

int main(int argc, char **argv)
{
    watchdog_start(60, "excess");
    free(malloc(1));
    size_t base_kib = procinfo_rss_kib();
    const char *what = argc > 1 ? argv[1] : "large";
    bool threads = strcmp(what, "threads") == 0;
    size_t least = strcmp(what, "large") == 0    ? 2 * MIB
                   : strcmp(what, "medium") == 0 ? 64 * KIB
                                                 : 4 * KIB,
           after_kib = 0;
    pthread_barrier_init(&all_at_once, NULL, threads ? THREADS + 1 : 1);
    if (threads)
        after_kib = rss_beside_threads();
    else if (strcmp(what, "vectors") == 0)
        grow_vectors();
    else if (strcmp(what, "scattered") == 0)
        scatter();
    else
        rise_and_fall(least, (size_t)TOTAL_MIB * MIB);
    size_t kib = (threads ? after_kib : procinfo_rss_kib()) - base_kib;
    size_t most_mib = threads ? MOST_OF_THREADS_MIB : MOST_MIB; /* each thread caches up to 8 MiB */
    most_mib = strcmp(what, "scattered") == 0 ? MOST_SCATTERED_MIB : most_mib;
    CHECK(kib <= most_mib * KIB, "%s: %zu KiB are still resident", what, kib);
    return check_report("excess");
}
