/* Usage: test_spike MiB trim|calls|idle|beside
 * Tests memory after a spike (M5). The program allocates MiB of blocks of many sizes, and frees 95 % of them at random. Small blocks are
 * freed in stretches of four pages. RSS must then fall to 1.3 times the live bytes. With pages of 64 KiB, four times as many MiB are
 * allocated, because one page of each class stays.
 *   trim    after malloc_trim
 *   calls   within a million further operations, after a pause and with short pauses, because free memory is purged by its age
 *   idle    while the program is idle
 *   beside  the same as idle, with another idle thread of the program */
#include "support/check.h"
#include "support/core_page.h"
#include "support/procinfo.h"
#include "support/rng.h"
#include "support/watchdog.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { STRETCH_PAGES = 4, FREED_PERCENT = 95, FURTHER_CALLS = 1000000, BATCH = 1000, CALLS_PER_STEP = 10 * BATCH };
enum { STEP_MS = 10, PATIENCE_MS = 30000 };

struct block {
    void *at;
    bool first; /* true: this block is the first of a stretch, which is kept or freed as a whole */
};

static struct block *blocks;
static size_t count, live, base_kib;

/* Returns memory that is not from the allocator, because the test must not measure its own memory. */
static void *pages(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static void build(size_t bytes)
{
    static const size_t sizes[] = {64, 256, 1024, 4096, 8192, 12288, 16384, 24576, 32768};
    size_t built = 0, bytes_of_stretch = STRETCH_PAGES * core_page();
    for (size_t stretch = 0; built < bytes; stretch++) {
        size_t size = sizes[stretch % (sizeof sizes / sizeof *sizes)];
        for (size_t in = 0; in < bytes_of_stretch; in += size) {
            blocks[count] = (struct block){malloc(size), in == 0};
            CHECK(blocks[count].at != NULL, "%zu bytes", size);
            memset(blocks[count++].at, 1, size);
            built += size;
        }
    }
}

static void free_most(void)
{
    struct rng rng = rng_seeded(7);
    bool dies = false;
    for (size_t i = 0; i < count; i++) {
        dies = blocks[i].first ? rng_below(&rng, 100) < FREED_PERCENT : dies;
        live += dies ? 0 : malloc_usable_size(blocks[i].at);
        if (dies) {
            free(blocks[i].at);
        }
    }
}

static size_t heap_kib(void) { return procinfo_rss_kib() - base_kib; }

static bool lean(void) { return heap_kib() * 1024 * 10 <= live * 13; }

static void sleep_ms(long ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL); }

static void *do_nothing(void *unused)
{
    pause();
    return unused;
}

static long rest(void)
{
    long ms = 0;
    for (; ms < PATIENCE_MS && !lean(); ms += STEP_MS) {
        sleep_ms(STEP_MS);
    }
    return ms;
}

/* Allocates and frees batches that are larger than a bin, because HAKMEM looks at the age of free memory only in calls that find a bin empty or full. */
static long go_on(void)
{
    static void *batch[BATCH];
    long calls = 0;
    sleep_ms(1000);
    for (; calls < FURTHER_CALLS && (calls % CALLS_PER_STEP || !lean()); calls += 2 * BATCH) {
        if (calls % CALLS_PER_STEP == 0) {
            sleep_ms(STEP_MS);
        }
        for (int i = 0; i < BATCH; i++) {
            batch[i] = malloc(64);
        }
        for (int i = 0; i < BATCH; i++) {
            free(batch[i]);
        }
    }
    return calls;
}

int main(int argc, char **argv)
{
    size_t times = core_page() > 16384 ? 4 : 1;
    size_t bytes = (argc > 1 ? strtoul(argv[1], NULL, 10) : 64) * times << 20;
    const char *how = argc > 2 ? argv[2] : "trim";
    long took = 0;
    watchdog_start(120, "the spike");
    blocks = pages(bytes / 128 * sizeof *blocks);
    CHECK(blocks != NULL, "no memory for the test itself");
    printf("spike of %zu MiB, %s\n", bytes >> 20, how);
    fflush(stdout);
    pthread_t other;
    if (strcmp(how, "beside") == 0) {
        CHECK(pthread_create(&other, NULL, do_nothing, NULL) == 0, "thread");
    }
    base_kib = procinfo_rss_kib();
    build(bytes);
    size_t peak = heap_kib();
    free_most();
    size_t freed = heap_kib();
    if (strcmp(how, "trim") == 0) {
        CHECK(malloc_trim(0) == 1, "nothing given back");
    } else if (strcmp(how, "calls") == 0) {
        took = go_on();
    } else {
        took = rest();
    }
    printf("live %zu KiB; resident %zu at the peak, %zu freed, %zu now (%.2f times live) after %ld %s; %zu mappings\n",
           live / 1024, peak, freed, heap_kib(), (double)heap_kib() * 1024 / (double)live, took,
           strcmp(how, "calls") ? "ms" : "calls", procinfo_mappings());
    CHECK(lean(), "%zu KiB resident for %zu KiB live", heap_kib(), live / 1024);
    CHECK(procinfo_mappings() <= 64 + procinfo_rss_kib() / 2048, "%zu mappings", procinfo_mappings());
    return check_report("spike");
}
