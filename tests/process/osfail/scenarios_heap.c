/* These scenarios use the whole heap: trim, purge, the budget of large blocks, scarce address space, reports and a mixed load. */
#include "process/osfail/scenarios.h"

#include "count/stats.h"
#include "hakmem.h"
#include "process/osfail/held.h"
#include "policy/options.h"
#include "prof/hooks.h"
#include "prof/attach_sampling.h"
#include "support/check.h"
#include "support/knobs.h"
#include "support/rng.h"
#include "unit/fake_os.h"

enum { MOST = 2048 };
static struct held held[MOST];

/* In the second round the trim keeps half of the memory. */
static void trims(size_t size, size_t count)
{
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < count; i++)
            held_get(&held[i], HELD_MALLOC, 16, size);
        for (size_t i = 0; i < count; i++)
            held_put(&held[i]);
        hak_malloc_trim(round == 1 ? size * count / 2 : 0);
    }
}

/* The fake clock advances while the program allocates, so that purge passes become due. */
static void ages(size_t size, size_t count)
{
    for (int round = 0; round < 4; round++) {
        for (size_t i = 0; i < count; i++) {
            held_get(&held[i], HELD_MALLOC, 16, size);
            fake_os_pass_ms(20);
        }
        for (size_t i = 0; i < count; i++)
            held_put(&held[(i * 7) % count]);
    }
}

static void large_come_and_go(size_t size, size_t count)
{
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < count; i++)
            held_get(&held[i], HELD_MALLOC, 16, size + i * 65536);
        fake_os_pass_ms(400);
        for (size_t i = 0; i < count; i++)
            held_put(&held[i]);
    }
}

static size_t some_size(struct rng *rng)
{
    unsigned shift = 4 + rng_below(rng, 17);
    if (shift > 14 && rng_below(rng, 4) != 0)
        shift -= 8;
    return ((size_t)1 << shift) + rng_below(rng, 1u << shift);
}

static void mixed(size_t seed, size_t steps)
{
    enum { SLOTS = 64 };
    struct rng rng = rng_seeded(seed);
    for (size_t i = 0; i < SLOTS; i++)
        held[i].block = NULL;
    for (size_t step = 0; step < steps; step++) {
        struct held *slot = &held[rng_below(&rng, SLOTS)];
        uint32_t what = rng_below(&rng, 100);
        if (slot->block == NULL)
            held_get(slot, what < 20 ? HELD_CALLOC : HELD_MALLOC, 16, some_size(&rng));
        else if (what < 30)
            held_resize(slot, some_size(&rng));
        else
            held_put(slot);
        if (what == 99)
            hak_malloc_trim(0);
        fake_os_pass_ms(what < 10 ? 40 : 0);
    }
    for (size_t i = 0; i < SLOTS; i++)
        held_put(&held[i]);
}

static void reports(size_t size, size_t count)
{
    struct hak_stats stats;
    fake_os_capture();
    for (size_t i = 0; i < count; i++) {
        held_get(&held[i], HELD_MALLOC, 16, size);
        CHECK(hak_report("-") == 0 && hak_get_stats(&stats, sizeof stats) == 0, "no report");
    }
    for (size_t i = 0; i < count; i++)
        held_put(&held[i]);
    fake_os.capturing = false;
}

/* The bins hold one block, so that each allocation misses. Without a background thread, each miss counts as a refill. */
static void sampled(size_t size, size_t count)
{
    uint64_t before = hk_load(hk_global_counts[HK_GLOBAL_guard_samples]);
    hk_options.guard_sample = 1;
    hk_options.background = HK_BACKGROUND_OFF;
    hk_options.bin_cap = 1;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < count; i++)
            held_get(&held[i], i % 3 == 0 ? HELD_CALLOC : HELD_MALLOC, 16, size);
        for (size_t i = 0; i < count; i += 5)
            if (held[i].block != NULL)
                held_resize(&held[i], size * 2);
        for (size_t i = 0; i < count; i++)
            held_put(&held[i]);
    }
    if (held_healthy)
        CHECK(hk_load(hk_global_counts[HK_GLOBAL_guard_samples]) > before, "nothing was sampled");
}

/* Sampling starts while the process runs. Every allocation of a sampling window is picked. */
static void watched(size_t size, size_t count)
{
    bool begun = false;
    for (int round = 0; round < 3; round++) {
        begun = begun || hk_hooks_watch(1);
        for (size_t i = 0; i < count; i++) {
            if (begun)
                hk_attach_sampling_tick();
            held_get(&held[i], i % 3 == 0 ? HELD_CALLOC : HELD_MALLOC, 16, i % 5 == 0 ? size * 200 : size);
        }
        for (size_t i = 0; i < count; i += 4)
            if (held[i].block != NULL)
                held_resize(&held[i], size * 2);
        for (size_t i = 0; i < count; i++)
            held_put(&held[i]);
    }
    if (held_healthy)
        CHECK(begun && hk_load(hk_global_counts[HK_GLOBAL_samples]) > count, "nothing was picked");
    if (begun)
        hk_attach_sampling_end();
}

/* Without huge pages, the heap makes the pages of new slabs resident from 4 MiB on. */
static void grows_without_huge_pages(size_t size, size_t count)
{
    SET_KNOB(huge_pages_from, 0);
    trims(size, count);
}

#define MIB ((size_t)1 << 20)

const struct scenario scenarios_heap[] = {
    {"trim, small", trims, 64, 1500, 0, 0},
    {"trim, small", trims, 6000, 60, 0, 0},
    {"trim, medium", trims, 200000, 12, 0, 0},
    {"trim, large", trims, 3000000, 3, 0, 0},
    {"purge by age, small", ages, 30000, 80, 0, 0},
    {"purge by age, medium", ages, 300000, 20, 0, 0},
    {"large blocks by age", large_come_and_go, 2000000, 5, 0, 0},
    {"large blocks over budget", large_come_and_go, 2000000, 5, 0, 4 * MIB},
    {"sampled", sampled, 200, 150, 0, 0},
    {"watched", watched, 300, 60, 0, 0},
    {"mixed 1", mixed, 1, 150, 0, 0},
    {"mixed 2", mixed, 2, 150, 0, 8 * MIB},
    {"mixed 3, address space scarce", mixed, 3, 60, 512 * MIB, 0},
    {"small, address space scarce", trims, 400, 500, 64 * MIB, 0},
    {"large, address space scarce", large_come_and_go, 2000000, 4, 256 * MIB, 0},
    {"growth without huge pages", grows_without_huge_pages, 4000, 1600, 0, 0},
    {"report", reports, 5000, 4, 0, 0},
    {NULL, NULL, 0, 0, 0, 0},
};
