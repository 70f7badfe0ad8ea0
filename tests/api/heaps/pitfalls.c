/* Usage: test_pitfalls [threads]
 * Tests nine known problems of other allocators' heaps. Case 1 to case 9 each describe one problem. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hakmem.h"
#include "support/again.h"
#include "support/check.h"
#include "support/pattern.h"
#include "support/procinfo.h"
#include "support/rng.h"
#include "support/watchdog.h"

enum { MOST_THREADS = 300, BLOCKS = 200, KIB = 1024, MIB = 1024 * KIB };

static unsigned crowd = MOST_THREADS;

static struct hak_heap_stats stats_of(hak_heap_t *heap)
{
    struct hak_heap_stats stats;
    CHECK(hak_heap_get_stats(heap, &stats, sizeof stats) == 0, "errno %d", errno);
    return stats;
}

static size_t size_at(size_t i) { return 16 + i * 7919 % 2000; }

static void run_threads(unsigned n, void *(*body)(void *), void *argument)
{
    static pthread_t threads[MOST_THREADS];
    for (unsigned i = 0; i < n; i++)
        if (pthread_create(&threads[i], NULL, body, argument) != 0)
            exit(2);
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

/* Case 1: a block must come from the heap that the caller named, whichever blocks the thread has just freed in other heaps. */
static void caches_of_each_heap(void)
{
    hak_heap_t *heaps[3] = {hak_heap_create("a", 0), hak_heap_create("b", 0), NULL};
    for (size_t i = 0; i < 30000; i++) {
        hak_heap_t *heap = heaps[i % 3];
        void *block = heap != NULL ? hak_heap_malloc(heap, size_at(i)) : hak_malloc(size_at(i));
        CHECK(hak_heap_of(block) == heap, "block %zu of another heap", i);
        if (i % 2 == 0)
            hak_free(block);
        else if (heap != NULL)
            hak_heap_free(heaps[(i + 1) % 2], block); /* hak_heap_free() must accept a wrong heap. */
        else
            hak_heap_free(heaps[0], block);
    }
    CHECK(stats_of(heaps[0]).live_blocks == 0 && stats_of(heaps[1]).live_blocks == 0, "blocks are left");
    CHECK(hak_heap_destroy(heaps[0]) == 0 && hak_heap_destroy(heaps[1]) == 0, "destroy");
}

/* Case 2: a heap is destroyed or reset while threads that no longer use the heap have its free blocks in their caches. */
static struct {
    hak_heap_t *heap, *next;
    pthread_barrier_t filled, ended;
    bool resets;
} two;

static void *hold_blocks(void *unused)
{
    void *blocks[BLOCKS], *others[BLOCKS];
    (void)unused;
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = hak_heap_malloc(two.heap, size_at(i));
    for (size_t i = 0; i < BLOCKS; i += 2)
        hak_free(blocks[i]);
    for (size_t i = 0; i < BLOCKS; i++)
        others[i] = hak_malloc(size_at(i));
    pthread_barrier_wait(&two.filled);
    for (size_t i = 0; i < BLOCKS; i++)
        hak_free(others[i]); /* while the heap ends */
    pthread_barrier_wait(&two.ended);
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = hak_heap_malloc(two.next, size_at(i));
        CHECK(hak_heap_of(blocks[i]) == two.next, "block %zu", i);
        pattern_fill(blocks[i], size_at(i), (uintptr_t)blocks[i]);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        CHECK(pattern_holds(blocks[i], size_at(i), (uintptr_t)blocks[i]), "block %zu overlaps another", i);
    for (size_t i = 0; i < BLOCKS; i += 2)
        hak_free(blocks[i]);
    check_thread_done();
    return NULL;
}

static void *end_it(void *unused)
{
    (void)unused;
    pthread_barrier_wait(&two.filled);
    CHECK((two.resets ? hak_heap_reset(two.heap) : hak_heap_destroy(two.heap)) == 0, "errno %d", errno);
    two.next = two.resets ? two.heap : hak_heap_create("next", 0);
    CHECK(stats_of(two.next).live_blocks == 0 && stats_of(two.next).physical == 0, "memory is left");
    pthread_barrier_wait(&two.ended);
    check_thread_done();
    return NULL;
}

static void end_under_caches(bool resets)
{
    enum { HOLDERS = 8 };
    pthread_t ender;
    two.heap = hak_heap_create("first", 0);
    two.resets = resets;
    pthread_barrier_init(&two.filled, NULL, HOLDERS + 1);
    pthread_barrier_init(&two.ended, NULL, HOLDERS + 1);
    CHECK(pthread_create(&ender, NULL, end_it, NULL) == 0, "thread");
    run_threads(HOLDERS, hold_blocks, NULL);
    pthread_join(ender, NULL);
    struct hak_heap_stats stats = stats_of(two.next);
    CHECK(stats.live_blocks == HOLDERS * BLOCKS / 2, "%zu blocks live", (size_t)stats.live_blocks);
    CHECK(stats.cached == 0 && stats.caches == 0, "%zu caches of ended threads", (size_t)stats.caches);
    CHECK(hak_heap_destroy(two.next) == 0, "destroy");
}

/* Case 3: HAKMEM reports a free after the end of the heap, and the free changes nothing. */
/* Makes the mistake in a new process, because HAKMEM writes to stderr only if it is the same file as at the start. */
static void run_child(const char *mistake, char *said, size_t room, int *status)
{
    struct again self;
    *status = again_said(again(&self, "make", mistake, NULL), NULL, said, room);
}

static void free_late(void)
{
    static const size_t sizes[] = {100, 20000, 300000, 100};
    void *blocks[4], *others[BLOCKS];
    hak_heap_t *heap = hak_heap_create("ends", 0);
    for (size_t i = 0; i < 4; i++)
        blocks[i] = hak_heap_malloc(heap, sizes[i]);
    CHECK(hak_heap_destroy(heap) == 0, "destroy");
    for (size_t i = 0; i < 4; i++)
        hak_free(blocks[i]);
    hak_free(blocks[0]);
    for (size_t i = 0; i < BLOCKS; i++)
        pattern_fill(others[i] = hak_malloc(size_at(i)), size_at(i), i);
    for (size_t i = 0; i < BLOCKS; i++)
        CHECK(pattern_holds(others[i], size_at(i), i), "block %zu", i);
}

static void realloc_late(void)
{
    hak_heap_t *heap = hak_heap_create("ends", 0);
    void *block = hak_heap_malloc(heap, 100);
    CHECK(hak_heap_reset(heap) == 0, "reset");
    CHECK(hak_realloc(block, 5000) == NULL, "realloc of a block that is gone");
}

static void free_twice(void)
{
    hak_heap_t *heap = hak_heap_create("twice", 0);
    void *block = hak_heap_malloc(heap, 100);
    CHECK(hak_heap_malloc(heap, 100) != NULL, "another that stays");
    hak_free(block);
    hak_free(block);
    hak_malloc_trim(0); /* returns the block from the thread's cache to its slab */
}

static int make_mistake(const char *name)
{
    if (strcmp(name, "free_late") == 0)
        free_late();
    else if (strcmp(name, "realloc_late") == 0)
        realloc_late();
    else
        free_twice();
    return check_failures() == 0 ? 0 : 3;
}

static size_t lines_of(const char *text)
{
    size_t lines = 0;
    for (; *text != 0; text++)
        lines += *text == '\n';
    return lines;
}

static void late_frees(void)
{
    char said[4096];
    int status;
    run_child("free_late", said, sizeof said, &status);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d: %s", status, said);
    CHECK(lines_of(said) == 1 && strstr(said, "block of a heap that was destroyed or reset") != NULL, "said: %s", said);
    run_child("realloc_late", said, sizeof said, &status);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "status %d", status);
    CHECK(strstr(said, "realloc(): block of a heap that was destroyed or reset") != NULL, "said: %s", said);
    run_child("free_twice", said, sizeof said, &status);
    CHECK(WIFSIGNALED(status) && strstr(said, "block already free") != NULL, "said: %s", said);
}

/* Case 4: after the end of a thread, no memory of its caches may remain, however many heaps it has used. */
enum { HEAPS_OF_FOUR = 60 };
static hak_heap_t *heaps_of_four[HEAPS_OF_FOUR];
/* All threads of a round have their caches at the same time, so that all rounds have equal peaks, even on a busy machine. */
static pthread_barrier_t all_there;
static bool they_meet;

static void *use_many(void *unused)
{
    (void)unused;
    for (size_t i = 0; i < HEAPS_OF_FOUR * 4; i++) {
        void *block = hak_heap_malloc(heaps_of_four[i % HEAPS_OF_FOUR], size_at(i));
        hak_free(block);
    }
    if (they_meet)
        pthread_barrier_wait(&all_there);
    check_thread_done();
    return NULL;
}

static uint64_t metadata(void)
{
    struct hak_stats stats;
    hak_malloc_trim(0);
    CHECK(hak_get_stats(&stats, sizeof stats) == 0, "stats");
    return stats.metadata;
}

static void threads_that_end(void)
{
    enum { ROUNDS = 8 };
    uint64_t after[ROUNDS];
    pthread_barrier_init(&all_there, NULL, crowd / 4);
    they_meet = true;
    for (size_t i = 0; i < HEAPS_OF_FOUR; i++)
        heaps_of_four[i] = hak_heap_create(NULL, 0);
    for (size_t round = 0; round < ROUNDS; round++) {
        run_threads(crowd / 4, use_many, NULL);
        after[round] = metadata();
        for (size_t i = 0; i < HEAPS_OF_FOUR; i++) {
            struct hak_heap_stats stats = stats_of(heaps_of_four[i]);
            CHECK(stats.caches == 0 && stats.cached == 0 && stats.live_blocks == 0, "heap %zu: %zu caches", i,
                  (size_t)stats.caches);
            CHECK(stats.mallocs == (round + 1) * (crowd / 4) * 4, "heap %zu: %zu blocks", i, (size_t)stats.mallocs);
        }
    }
    they_meet = false;
    /* The order in which threads begin decides in which round a second area of 64 KiB is filled. After this round, the metadata may not grow. */
    CHECK(after[ROUNDS - 1] <= after[0] + 128 * KIB, "metadata grows: %zu, %zu", (size_t)after[0],
          (size_t)after[ROUNDS - 1]);
    for (size_t i = 0; i < HEAPS_OF_FOUR; i++)
        CHECK(hak_heap_destroy(heaps_of_four[i]) == 0, "destroy");
}

/* Case 5: a block that is resized stays in its heap, whichever thread resizes it. */
static void realloc_keeps_heap(void)
{
    static const size_t sizes[] = {10,      100,     1000,    5000,   40000, 300000, 900000,
                                   3000000, 9000000, 2000000, 200000, 700,   30};
    hak_heap_t *heap = hak_heap_create("grows", 0), *other = hak_heap_create("other", 0);
    unsigned char *block = hak_heap_malloc(heap, 1);
    size_t before = 1;
    pattern_fill(block, 1, 5);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        block = i % 2 == 0 ? hak_realloc(block, sizes[i]) : hak_heap_realloc(heap, block, sizes[i]);
        CHECK(block != NULL && hak_heap_of(block) == heap, "%zu bytes", sizes[i]);
        CHECK(pattern_holds(block, before < sizes[i] ? before : sizes[i], 5), "%zu bytes", sizes[i]);
        CHECK(hak_malloc_usable_size(block) >= sizes[i], "%zu bytes", sizes[i]);
        pattern_fill(block, before = sizes[i], 5);
    }
    block = hak_heap_realloc(other, block, 60);
    CHECK(hak_heap_of(block) == other && pattern_holds(block, 30, 5), "a block moves to the heap that is named");
    CHECK(stats_of(heap).live_blocks == 0 && stats_of(heap).large == 0, "and leaves its own");
    block = hak_heap_realloc(heap, hak_malloc(50), 5000000);
    CHECK(hak_heap_of(block) == heap && stats_of(heap).large >= 5000000, "from the process's heap");
    CHECK(hak_realloc(block, 0) == NULL && stats_of(heap).large == 0, "realloc to 0 frees");
    CHECK(hak_heap_destroy(heap) == 0 && hak_heap_destroy(other) == 0, "destroy");
}

/* Case 6: the limit counts runs of pages. Free blocks in caches count too, and no thread can exceed the limit. */
static hak_heap_t *limited;
static atomic_uint refusals;

static void *press(void *unused)
{
    void *blocks[BLOCKS] = {NULL};
    struct rng rng = rng_seeded((uintptr_t)pthread_self());
    (void)unused;
    for (size_t i = 0; i < 4 * BLOCKS; i++) {
        size_t at = rng_below(&rng, BLOCKS),
               size = rng_below(&rng, 40) == 0 ? 1 + rng_below(&rng, 3 * MIB) : size_at(rng_next(&rng) % BLOCKS);
        hak_free(blocks[at]);
        errno = 0;
        blocks[at] = hak_heap_malloc(limited, size);
        CHECK(blocks[at] != NULL || errno == ENOMEM, "errno %d", errno);
        refusals += blocks[at] == NULL;
        if (blocks[at] != NULL)
            memset(blocks[at], 1, size);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
    check_thread_done();
    return NULL;
}

static void limit_holds(unsigned threads, size_t limit)
{
    limited = hak_heap_create("limited", limit);
    refusals = 0;
    run_threads(threads, press, NULL);
    struct hak_heap_stats stats = stats_of(limited);
    CHECK(stats.peak <= limit && stats.peak > limit / 2, "limit %zu, peak %zu", limit, (size_t)stats.peak);
    CHECK(stats.refused == refusals && refusals > 0, "%u refusals, %zu counted", (unsigned)refusals,
          (size_t)stats.refused);
    CHECK(stats.live == 0 && stats.physical <= 4 * MIB, "%zu bytes live, %zu physical", (size_t)stats.live,
          (size_t)stats.physical);
    CHECK(hak_heap_destroy(limited) == 0, "destroy");
}

/* Allocates blocks of only one size up to the limit, then of only another size. Free blocks of the first size in the thread's own cache must not
 * count against the limit. */
static void limit_is_usable(void)
{
    static void *blocks[4096];
    hak_heap_t *heap = hak_heap_create("turns", MIB);
    size_t first = 0;
    for (size_t round = 0; round < 20; round++) {
        size_t size = (size_t)24 << round % 8, n = 0, bytes = 0;
        while (n < 4096 && (blocks[n] = hak_heap_malloc(heap, size)) != NULL)
            bytes += size, n++;
        first = round == 0 ? 1 : first;
        CHECK(n == 4096 || bytes >= MIB * 2 / 3, "round %zu: %zu bytes of %zu", round, bytes, size);
        CHECK(stats_of(heap).physical <= MIB, "physical");
        while (n > 0)
            hak_free(blocks[--n]);
    }
    void *block = hak_heap_malloc(heap, MIB / 2);
    CHECK(block != NULL && hak_heap_malloc(heap, 2 * MIB) == NULL && errno == ENOMEM, "one large block");
    CHECK(hak_heap_set_limit(heap, 16 * MIB) == 0 && hak_heap_malloc(heap, 2 * MIB) != NULL, "a higher limit");
    CHECK(hak_heap_set_limit(heap, 1) == 0 && hak_heap_malloc(heap, 2 * MIB) == NULL, "a lower one");
    CHECK(hak_realloc(block, 9 * KIB) != NULL, "a block never fails to shrink");
    CHECK(hak_heap_destroy(heap) == 0, "destroy");
}

/* Case 7: the child of a fork has usable heaps, even if other threads were inside a call. */
static atomic_bool over;
static hak_heap_t *forked;

static void *churn(void *unused)
{
    (void)unused;
    for (size_t i = 0; !over; i++) {
        void *block = hak_heap_malloc(forked, size_at(i) * (i % 64 == 0 ? 40 : 1));
        void *other = hak_malloc(size_at(i));
        hak_free(block);
        hak_free(other);
    }
    check_thread_done();
    return NULL;
}

static void use_in_child(void)
{
    void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++)
        pattern_fill(blocks[i] = hak_heap_malloc(forked, size_at(i)), size_at(i), i);
    for (size_t i = 0; i < BLOCKS; i++)
        CHECK(pattern_holds(blocks[i], size_at(i), i), "block %zu", i);
    for (size_t i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
    CHECK(hak_heap_reset(forked) == 0 && stats_of(forked).physical == 0, "reset");
    CHECK(hak_heap_malloc(forked, 100) != NULL && hak_heap_destroy(forked) == 0, "destroy");
#ifndef __SANITIZE_THREAD__ /* the thread sanitizer supports no threads in a child */
    run_threads(2, use_many, NULL);
#endif
}

static void forks(unsigned count)
{
    pthread_t threads[3];
    forked = hak_heap_create("forked", 0);
    for (size_t i = 0; i < HEAPS_OF_FOUR; i++)
        heaps_of_four[i] = hak_heap_create(NULL, 0);
    over = false;
    for (unsigned i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, churn, NULL) == 0, "thread");
    for (unsigned i = 0; i < count; i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            use_in_child();
            _exit(check_failures() == 0 ? 7 : 3);
        }
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7, "status %d",
              status);
    }
    over = true;
    for (unsigned i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    CHECK(stats_of(forked).live_blocks == 0, "blocks live in the parent");
    CHECK(hak_heap_destroy(forked) == 0, "destroy");
    for (size_t i = 0; i < HEAPS_OF_FOUR; i++)
        CHECK(hak_heap_destroy(heaps_of_four[i]) == 0, "destroy");
}

/* Case 8: a heap of a few blocks needs little memory, even if it has a block of each size. */
static void small_heaps(size_t count)
{
    static hak_heap_t *heaps[5000];
    hak_malloc_trim(0);
    struct hak_stats before, after;
    hak_get_stats(&before, sizeof before);
    for (size_t i = 0; i < count; i++) {
        heaps[i] = hak_heap_create("small", 0);
        for (size_t block = 0; block < 4; block++)
            memset(hak_heap_malloc(heaps[i], 40), 1, 40);
        CHECK(stats_of(heaps[i]).physical == 64 * KIB, "%zu bytes", (size_t)stats_of(heaps[i]).physical);
    }
    hak_get_stats(&after, sizeof after);
    size_t tables = (size_t)(after.metadata - before.metadata) / count;
    CHECK(count < 1000 || tables < 5 * KIB, "%zu bytes of tables for each heap", tables);
    hak_heap_t *all = hak_heap_create("a block of each size", 0);
    for (size_t size = 16; size <= 4096; size += 16)
        memset(hak_heap_malloc(all, size), 1, size);
    CHECK(stats_of(all).physical <= MIB, "%zu bytes for 512 KiB in 256 sizes", (size_t)stats_of(all).physical);
    CHECK(hak_heap_destroy(all) == 0, "destroy");
    for (size_t i = 0; i < count; i++)
        CHECK(hak_heap_destroy(heaps[i]) == 0, "destroy");
}

/* Case 9: destructors of an ending thread use heaps. One of the thread's heaps has been destroyed before. */
static pthread_key_t key;
static hak_heap_t *lasting;

/* The C library runs four rounds of destructors. In the last round the thread sanitizer has ended its own record of the thread, and an
 * atomic operation of the program may end the process. */
#ifdef __SANITIZE_THREAD__
enum { LAST_ROUND = 2 };
#else
enum { LAST_ROUND = 3 };
#endif

static void in_destructor(void *value)
{
    uintptr_t *block = value;
    size_t rounds = *block;
    CHECK(hak_heap_of(block) == lasting, "its heap");
    hak_free(block);
    uintptr_t *next = hak_heap_malloc(lasting, 64 + rounds * 100);
    CHECK(next != NULL, "in round %zu", rounds);
    *next = rounds + 1;
    if (rounds < LAST_ROUND)
        pthread_setspecific(key, next);
    else
        hak_free(next);
    check_thread_done();
}

static void *end_with_destructors(void *unused)
{
    (void)unused;
    hak_heap_t *own = hak_heap_create("own", 0);
    uintptr_t *block = hak_heap_malloc(lasting, 64);
    hak_free(hak_heap_malloc(own, 100));
    *block = 0;
    pthread_setspecific(key, block);
    CHECK(hak_heap_malloc(own, 50) != NULL && hak_heap_destroy(own) == 0, "destroy");
    check_thread_done();
    return NULL;
}

static void destructors(void)
{
    CHECK(pthread_key_create(&key, in_destructor) == 0, "key");
    lasting = hak_heap_create("lasting", 0);
    run_threads(crowd / 4, end_with_destructors, NULL);
    CHECK(stats_of(lasting).live_blocks == 0, "%zu blocks are left", (size_t)stats_of(lasting).live_blocks);
    CHECK(hak_heap_destroy(lasting) == 0, "destroy");
    pthread_key_delete(key);
}

/* Tests what hakmem.h promises about names, errors and statistics of heaps. */
static void names_and_errors(void)
{
    char long_name[200];
    volatile size_t many = SIZE_MAX / 2;
    memset(long_name, 'x', sizeof long_name - 1);
    memcpy(long_name + 60, "\xc3\xa4\xc3\xa4\xc3\xa4", 6);
    long_name[sizeof long_name - 1] = 0;
    hak_heap_t *cut = hak_heap_create(long_name, 0), *same = hak_heap_create("same", 0),
               *again = hak_heap_create("same", 0), *none = hak_heap_create(NULL, 0);
    CHECK(strlen(stats_of(cut).name) == 62, "cut in a character: %zu", strlen(stats_of(cut).name));
    CHECK(same != again && strcmp(stats_of(again).name, "same") == 0 && stats_of(none).name[0] == 0, "names");
    CHECK(hak_heap_of(NULL) == NULL && hak_heap_of(&long_name) == NULL, "no block");
    errno = 0;
    volatile size_t no_power_of_two = 48; /* volatile because compilers reject this constant */
    CHECK(hak_heap_aligned_alloc(same, no_power_of_two, 10) == NULL && errno == EINVAL, "alignment");
    CHECK(hak_heap_calloc(same, many, 3) == NULL && errno == ENOMEM, "overflow");
    CHECK(hak_heap_malloc(same, many) == NULL && errno == ENOMEM, "too much");
    for (size_t align = 1; align <= 4 * MIB; align *= 2)
        for (size_t size = 1; size < 300000; size = size * 3 + 5) {
            void *block = hak_heap_aligned_alloc(same, align, size);
            CHECK(block != NULL && (uintptr_t)block % align == 0 && hak_heap_of(block) == same, "%zu at %zu", size,
                  align);
            memset(block, 0xff, size);
            hak_free(block);
        }
    for (size_t size = 1; size < 4 * MIB; size = size * 2 + 7) {
        unsigned char *block = hak_heap_calloc(same, 1, size);
        CHECK(block != NULL && all_zero(block, size), "%zu zeros", size);
        memset(block, 0xff, size);
        hak_heap_free(same, block);
    }
    CHECK(hak_heap_destroy(same) == 0, "destroy");
    errno = 0;
    CHECK(hak_heap_destroy(same) == -1 && errno == EINVAL && hak_heap_reset(NULL) == -1, "twice");
    errno = 0;
    CHECK(hak_heap_malloc(same, 10) == NULL && errno == EINVAL && hak_heap_malloc(same, 5 * MIB) == NULL,
          "from an ended heap");
    struct hak_heap_stats stats;
    CHECK(hak_heap_get_stats(same, &stats, sizeof stats) == -1 && hak_heap_get_stats(none, &stats, 4) == -1,
          "statistics");
    CHECK(hak_heap_get_stats(none, &stats, 16) == 0 && stats.size == 16, "of an older program");
    CHECK(hak_heap_destroy(again) == 0 && hak_heap_destroy(none) == 0 && hak_heap_destroy(cut) == 0, "destroy");
}

int main(int argc, char **argv)
{
    if (argc > 2)
        return make_mistake(argv[2]);
    watchdog_start(300, "pitfalls");
    if (argc > 1)
        crowd = (unsigned)atoi(argv[1]);
    caches_of_each_heap();
    end_under_caches(false);
    end_under_caches(true);
    late_frees();
    threads_that_end();
    realloc_keeps_heap();
    limit_holds(1, 4 * MIB);
    limit_holds(8, 8 * MIB);
    limit_holds(crowd, 16 * MIB);
    limit_is_usable();
    forks(crowd / 10);
    small_heaps(1);
    small_heaps(1000);
    small_heaps(5000);
    destructors();
    names_and_errors();
    return check_report("pitfalls");
}
