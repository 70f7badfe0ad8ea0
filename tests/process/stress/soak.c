/* Usage: test_soak [seconds [steps of a round]]
 * Tests the heap in many rounds of the engine, with all sizes and numbers of threads, while a set of other blocks is slowly replaced.
 * After each round the heap must be sound, and HAKMEM's counts must equal the program's blocks and bytes. After each cycle of rounds and
 * a trim, the resident bytes that are not live must not exceed their level in the first rounds and in the first quarter of the time. In the first
 * 176 rounds they rise, however long a round takes, until holes and blocks are in balance. */
#include "engine.h"

#include "report/heap_stats.h"
#include "support/check.h"
#include "support/core_page.h"
#include "support/heap.h"
#include "support/pattern.h"
#include "support/procinfo.h"
#include "support/rng.h"
#include "support/watchdog.h"
#include "unit/invariants.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    KEPT = 20000,
    EXCHANGED = 2000,
    CYCLE = 16,
    PAGES_MORE = 128,
    SETTLING_ROUNDS = 12 * CYCLE,
    FEWEST_ROUNDS = 3 * CYCLE,
    LARGEST_KEPT = 3000
};

static struct {
    void *p;
    size_t size;
    uint64_t seed;
} kept[KEPT];
static struct hk_heap_stats heap_stats;

static uint64_t seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec;
}

static void exchange_one(struct rng *rng, size_t i, uint64_t seed)
{
    if (kept[i].p != NULL)
        CHECK(pattern_holds(kept[i].p, kept[i].size, kept[i].seed), "block %zu, kept since step %ju", i,
              (uintmax_t)kept[i].seed);
    heap_free(kept[i].p);
    kept[i].size = 1 + rng_below(rng, LARGEST_KEPT);
    kept[i].seed = seed;
    kept[i].p = heap_malloc(kept[i].size);
    CHECK(kept[i].p != NULL, "%zu bytes", kept[i].size);
    pattern_fill(kept[i].p, kept[i].size, seed);
}

static size_t kept_bytes(void)
{
    size_t bytes = 0;
    for (size_t i = 0; i < KEPT; i++)
        bytes += hk_classes[hk_class_of(kept[i].size)].size;
    return bytes;
}

static void take_heap_stats(void)
{
    const char *wrong = heap_is_wrong(&heap_stats);
    CHECK(wrong == NULL, "the heap: %s", wrong);
}

/* Runs one round. CYCLE rounds have each combination of threads and sizes once. */
static void run_round(unsigned round, uint64_t steps)
{
    static const size_t largest[] = {1024, 16384, 262144, 4 << 20};
    struct engine_plan plan = {
        .threads = 1 + round % 4, .generations = 2, .seed = round, .largest = largest[round / 4 % 4]};
    plan.steps = steps / plan.threads;
    engine_run(&plan);
}

int main(int argc, char **argv)
{
    uint64_t seconds = argc > 1 ? strtoull(argv[1], NULL, 10) : 3, begun = seconds_now(), said = 0;
    uint64_t steps = argc > 2 ? strtoull(argv[2], NULL, 10) : 24000;
    struct rng rng = rng_seeded(1);
    unsigned round = 0;
    bool watched = getenv("TEST_SLOWDOWN") != NULL;
    unsigned fewest = watched ? FEWEST_ROUNDS : SETTLING_ROUNDS + FEWEST_ROUNDS;
    watchdog_start(1800, "soak");
    printf("soak: rounds of %ju steps\n", (uintmax_t)steps); /* allocates stdout's buffer too */
    for (size_t i = 0; i < KEPT; i++)
        exchange_one(&rng, i, i);
    size_t blocks = 0, bytes = 0, settled = 0, beyond = 0;
    for (; seconds_now() < begun + seconds || round < fewest || round % CYCLE != 0; round++) {
        run_round(round, steps);
        for (size_t i = 0; i < EXCHANGED; i++)
            exchange_one(&rng, rng_below(&rng, KEPT), round);
        take_heap_stats();
        /* The C library keeps the memory that it has allocated for threads in the first cycle. */
        if (round < CYCLE) {
            blocks = heap_stats.sum.live_blocks;
            bytes = heap_stats.sum.live + heap_stats.sum.rounding - kept_bytes();
        }
        CHECK(heap_stats.sum.live_blocks == blocks, "%zu blocks are live, not %zu", heap_stats.sum.live_blocks, blocks);
        CHECK(heap_stats.sum.live + heap_stats.sum.rounding == bytes + kept_bytes(), "%zu bytes are live, not %zu",
              heap_stats.sum.live + heap_stats.sum.rounding, bytes + kept_bytes());
        CHECK(heap_stats.parts[HK_PART_large_live] == 0, "%zu bytes of large blocks are live",
              heap_stats.parts[HK_PART_large_live]);
        if (round % CYCLE != CYCLE - 1)
            continue;
        heap_trim(0);
        size_t live = (heap_stats.sum.live + heap_stats.sum.rounding) / 1024, rss = procinfo_rss_kib();
        beyond = rss - live;
        if ((round < SETTLING_ROUNDS || seconds_now() < begun + seconds / 4) && beyond > settled)
            settled = beyond;
        /* The data of a tool that watches the program is resident too, so `beyond` is then not checked. PAGES_MORE allows for pages that hold
         * only a few blocks. */
        CHECK(watched || beyond <= settled + rss / 50 + PAGES_MORE * core_page() / 1024,
              "RSS beyond what is live grew from %zu to %zu KiB", settled, beyond);
        if (seconds_now() >= said + 10) {
            said = seconds_now();
            printf("%u rounds: %zu KiB live, RSS %zu KiB\n", round + 1, live, rss);
            fflush(stdout);
        }
    }
    printf("%u rounds; RSS beyond what is live: %zu KiB, at most %zu in the beginning\n", round, beyond, settled);
    return check_report("soak");
}
