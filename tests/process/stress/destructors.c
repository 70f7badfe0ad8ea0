/* Usage: test_destructors [threads]
 * Tests malloc and free in each destructor that a thread or a process runs, in any order.
 *
 * At the end of a thread the destructors of its pthread keys run, in up to PTHREAD_DESTRUCTOR_ITERATIONS rounds, before or after the
 * allocator's own destructor. Each destructor frees its block, allocates a new block and requests another round, so that the last round surely
 * runs after the end of the thread's cache. At the end of a process, atexit handlers run, then ELF destructors. */
#include "support/check.h"
#include "support/pattern.h"
#include "support/procinfo.h"
#include "support/rng.h"
#include "support/watchdog.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEYS = 40, ROUNDS = 4, LEFT_ROOM = 1 << 16, AT_EXIT_FAILED = 9 };

struct item {
    size_t size;
    uint64_t seed;
    unsigned key;
    unsigned round;
};

static pthread_key_t keys[KEYS];
static _Atomic(struct item *) x_left[LEFT_ROOM]; /* blocks of the last round, which the main thread frees */
static atomic_uint x_left_count;
static atomic_uint x_last_rounds;

/* Returns a block that begins with its description, followed by a pattern. */
static struct item *item_new(unsigned key, unsigned round)
{
    size_t size = sizeof(struct item) + (key * 977 + round * 131) % (key % 8 == 7 ? 90000 : 1500);
    struct item *item = malloc(size);
    CHECK(item != NULL, "%zu bytes", size);
    pattern_fill_range(item, sizeof *item, size, key);
    *item = (struct item){size, key, key, round};
    return item;
}

static void item_free(struct item *item)
{
    size_t size = item->size;
    uint64_t seed = item->seed;
    pattern_fill_range(item, 0, sizeof *item, seed);
    CHECK(pattern_holds(item, size, seed), "block %p of %zu bytes was changed", (void *)item, size);
    free(item);
}

static void destroy(void *value)
{
    struct item *item = value;
    unsigned key = item->key;
    unsigned round = item->round;
    item_free(item);
    void *passing = calloc(1, 24 + key * 50);
    passing = realloc(passing, 3000 + key);
    CHECK(passing != NULL, "key %u, round %u", key, round);
    free(passing);
    if (round + 1 < ROUNDS) {
        pthread_setspecific(keys[key], item_new(key, round + 1));
    } else {
        /* After the last round, no destructor frees the block, so it outlives the thread. */
        atomic_fetch_add(&x_last_rounds, 1);
        atomic_store(&x_left[atomic_fetch_add(&x_left_count, 1) % LEFT_ROOM], item_new(key, round + 1));
    }
    check_thread_done();
}

static void *live(void *argument)
{
    struct rng rng = rng_seeded((uintptr_t)argument);
    unsigned first = rng_below(&rng, KEYS);
    if (first % 2) {
        /* Half of the threads call malloc before their first pthread_setspecific, and the others after it. */
        free(malloc(100));
    }
    for (unsigned i = 0; i < KEYS; i++) {
        unsigned key = (first + i) % KEYS;
        pthread_setspecific(keys[key], item_new(key, 0));
    }
    check_thread_done();
    return NULL;
}

static void *live_quietly(void *argument)
{
    pthread_setspecific(keys[0], argument);
    return NULL;
}

static void run_pair(uintptr_t n)
{
    pthread_t thread[2];
    CHECK(pthread_create(&thread[0], NULL, live, (void *)n) == 0, "thread %ju", (uintmax_t)n);
    CHECK(pthread_create(&thread[1], NULL, live_quietly, item_new(0, 0)) == 0, "thread %ju", (uintmax_t)n);
    pthread_join(thread[0], NULL);
    pthread_join(thread[1], NULL);
    for (unsigned i = atomic_exchange(&x_left_count, 0); i-- > 0;) {
        item_free(atomic_exchange(&x_left[i], NULL));
    }
}

static void *at_end[3];

/* Checks and frees an earlier block, and allocates more blocks. It runs after check_report, so it ends the process itself if a check fails. */
static void use_heap_at_end(const char *where, unsigned which)
{
    enum { BLOCKS = 500 };
    void *block[BLOCKS];
    bool good = pattern_holds(at_end[which], 5000, which);
    free(at_end[which]);
    for (size_t i = 0; i < BLOCKS; i++) {
        block[i] = i % 2 ? malloc(i * 40) : calloc(3, i * 10);
        good = good && block[i];
        pattern_fill(block[i], i * 30, i);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        good = good && pattern_holds(block[i], i * 30, i);
        free(block[i]);
    }
    if (!good) {
        dprintf(STDERR_FILENO, "destructors: the heap was not right %s\n", where);
        _exit(AT_EXIT_FAILED);
    }
}

static void at_exit_handler(void) { use_heap_at_end("in an atexit handler", 0); }

__attribute__((destructor)) static void elf_destructor(void)
{
    use_heap_at_end("in an ELF destructor", 1);
    static const char last[] = "destructors: ELF destructor ran\n";
    ssize_t ignored = write(STDOUT_FILENO, last, sizeof last - 1);
    (void)ignored;
}

__attribute__((constructor)) static void elf_constructor(void)
{
    for (unsigned which = 0; which < 2; which++) {
        at_end[which] = malloc(5000);
        pattern_fill(at_end[which], 5000, which);
    }
    atexit(at_exit_handler);
}

__attribute__((weak)) int malloc_trim(size_t pad); /* musl has none */

/* Ends parked caches first, of which there may be more or fewer at any moment. */
static size_t trimmed_rss_kib(void)
{
    if (malloc_trim != NULL)
        malloc_trim(0);
    return procinfo_rss_kib();
}

int main(int argc, char **argv)
{
    uintptr_t pairs = argc > 1 ? strtoul(argv[1], NULL, 10) : 2000;
    size_t settled = 0;
    watchdog_start(120, "destructors");
    procinfo_forbid_huge_pages();
    for (unsigned k = 0; k < KEYS; k++) {
        CHECK(pthread_key_create(&keys[k], destroy) == 0, "key %u", k);
    }
    for (uintptr_t n = 0; n < pairs; n++) {
        run_pair(n);
        if (n == pairs / 5) {
            settled = trimmed_rss_kib();
        }
    }
    size_t rss = trimmed_rss_kib();
    CHECK(atomic_load(&x_last_rounds) == pairs * (KEYS + 1), "%u last rounds of %ju", atomic_load(&x_last_rounds),
          (uintmax_t)pairs * (KEYS + 1));
    CHECK(rss <= settled + settled / 20 + 512 + procinfo_of_ended_kib(2 * pairs), "RSS grew from %zu to %zu KiB",
          settled, rss);
    return check_report("destructors");
}
