/* Tests that samples with a guard page are due by bytes, whatever path serves the blocks, and that rounds begin and end when they should. */
#include "unit/unit.h"

#include "guard/sampled.h"
#include "guard/sampled_due.h"
#include "hakmem.h"
#include "support/rng.h"

#define MEAN (128 * HK_KIB)
enum { SLOTS = 500, THREADS = 4 };

static uint64_t samples(void) { return hk_load(hk_global_counts[HK_GLOBAL_guard_samples]); }
static bool in_round(void) { return hk_mode_has(HK_MODE_IN_ROUND); }

static void start(uint64_t mean)
{
    hk_options.guard_sample = mean;
    unit_start();
}

static uint64_t now_ms; /* the time that the background thread would see */

/* Lets a program allocate for so long that a round would begin about 100 times. */
static uint64_t samples_of(uint64_t bytes, void (*allocate)(void), size_t bytes_of_call)
{
    uint64_t before = samples(), calls = bytes / bytes_of_call;
    for (uint64_t i = 0; i < calls; i++) {
        if (i % (calls / 100) == 0)
            hk_sample_round_if_due(now_ms += 4);
        allocate();
    }
    return samples() - before;
}

static void assert_due(uint64_t taken, uint64_t due)
{
    if (taken < due * 4 / 5 || taken > due * 6 / 5)
        fail_msg("%lu samples were taken, and %lu were due", taken, due);
}

static void small_loop(void) { hak_free(hak_malloc(112)); }
static void larger_loop(void) { hak_free(hak_malloc(4096)); }
static void zeroed_loop(void) { hak_free(hak_calloc(7, 64)); }

static void replace_one(void)
{
    static struct rng rng;
    static void *blocks[SLOTS];
    if (rng.state == 0)
        rng = rng_seeded(3);
    void **block = &blocks[rng_below(&rng, SLOTS)];
    hak_free(*block);
    *block = hak_malloc(97 + rng_below(&rng, 16));
}

static void try_programs(void)
{
    start(MEAN);
    assert_due(samples_of(1000 * MEAN, small_loop, 112), 1000);
    assert_due(samples_of(1000 * MEAN, larger_loop, 4096), 1000);
    assert_due(samples_of(1000 * MEAN, zeroed_loop, 448), 1000);
    assert_due(samples_of(1000 * MEAN, replace_one, 112), 1000);
}

UNIT_TEST(loops_and_replacements) { try_programs(); }

/* While calls are checked, all of them are misses. They are sampled at the same rate. */
UNIT_TEST(while_calls_are_checked)
{
    hk_options.safe_free = 1;
    try_programs();
}

/* The first round samples a short program, before a background thread exists. */
UNIT_TEST(short_program)
{
    start(2 * HK_KIB);
    assert_true(in_round());
    assert_false(hk_sample_rounds_wait());
    for (int i = 0; i < 2000; i++)
        small_loop();
    assert_in_range(samples(), 60, 160); /* the expectation of 109, plus or minus almost five standard deviations */
    assert_true(in_round());
    for (int i = 0; i < 2100; i++)
        small_loop();
    assert_false(in_round());
    assert_true(hk_sample_rounds_wait());
}

static void end_first_round(void)
{
    for (int i = 0; in_round() && i < 5000; i++)
        small_loop();
    assert_false(in_round());
}

/* A round ends soon if nothing is due, and after a limited number of calls if no block is small enough for a sample. */
UNIT_TEST(end_of_a_round)
{
    start(HK_MIB * HK_MIB);
    end_first_round();
    assert_int_equal(hk_sample_round_if_due(now_ms += 4), 4);
    assert_true(in_round());
    int calls = 0;
    for (; in_round(); calls++)
        small_loop();
    assert_in_range(calls, 1, 64);
    hk_tcache_self()->guarded.owed = 7;
    assert_int_equal(hk_sample_round_if_due(now_ms += 4), 4);
    for (calls = 0; in_round(); calls++)
        hak_free(hak_malloc(20000));
    assert_in_range(calls, 2040, 2060);
    assert_int_equal(hk_tcache_self()->guarded.owed, 7);
    assert_int_equal(samples(), 0);
}

/* If the process does not allocate, a round stays open, and the background thread looks more and more rarely. */
UNIT_TEST(idle)
{
    start(MEAN);
    end_first_round();
    uint64_t looks = 0, until = now_ms + 10000;
    for (; now_ms < until; looks++)
        now_ms += hk_sample_round_if_due(now_ms);
    assert_in_range(looks, 10, 40);
    end_first_round();
    assert_int_equal(hk_sample_round_if_due(now_ms += 512), 4);
}

UNIT_TEST(off)
{
    unit_start();
    assert_true(hk_sample_round_if_due(5) == UINT64_MAX);
    assert_false(hk_sample_rounds_wait() || in_round());
}

/* If samples are due faster than they can be taken, the rest is dropped. */
UNIT_TEST(too_many)
{
    start(1);
    end_first_round();
    for (int i = 0; i < 100000; i++)
        small_loop();
    hk_sample_round_if_due(now_ms += 4);
    uint64_t before = samples();
    small_loop();
    assert_in_range(hk_tcache_self()->guarded.owed, 1000, 1024);
    end_first_round();
    assert_in_range(samples() - before, 450, 560);
}

static void loop_in_thread(void *bytes)
{
    for (size_t left = *(size_t *)bytes; left > 112; left -= 112)
        small_loop();
}

/* What ended threads did not pay is no debt of the others. */
UNIT_TEST(threads)
{
    size_t bytes = 100 * MEAN;
    start(MEAN);
    end_first_round();
    for (int i = 0; i < THREADS; i++) {
        unit_in_thread(loop_in_thread, &bytes);
        hk_sample_round_if_due(now_ms += 4);
        unit_in_thread(loop_in_thread, &(size_t){HK_KIB});
    }
    end_first_round();
    hk_sample_round_if_due(now_ms += 4);
    for (int i = 0; i < 600; i++)
        small_loop();
    assert_false(in_round());
}

/* The gate is as wide after a round as before it. */
UNIT_TEST(gate)
{
    start(MEAN);
    end_first_round();
    size_t fine = hk_gate.sizes_below, coarse = hk_gate.coarse_sizes;
    assert_int_equal(fine, HK_FINE_MAX + 1);
    hk_sample_round_if_due(now_ms += 4);
    assert_int_equal(hk_gate.sizes_below | hk_gate.coarse_sizes, 0);
    hk_gate_shut(HK_SHUT_COARSE);
    end_first_round();
    assert_int_equal(hk_gate.sizes_below, fine);
    assert_int_equal(hk_gate.coarse_sizes, 0);
    hk_gate_release(HK_SHUT_COARSE);
    assert_int_equal(hk_gate.coarse_sizes, coarse);
    assert_true(hk_mode_has(HK_MODE_OPEN));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(loops_and_replacements),
                                       cmocka_unit_test(while_calls_are_checked),
                                       cmocka_unit_test(short_program),
                                       cmocka_unit_test(end_of_a_round),
                                       cmocka_unit_test(idle),
                                       cmocka_unit_test(off),
                                       cmocka_unit_test(too_many),
                                       cmocka_unit_test(threads),
                                       cmocka_unit_test(gate)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
