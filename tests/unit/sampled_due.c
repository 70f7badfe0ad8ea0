/* Tests that samples with a guard page are due by bytes, whatever path serves the blocks, and that rounds begin and end when they should. */
#include "unit/unit.h"

#include "guard/sampled.h"
#include "guard/sampled_due.h"
#include "hakmem.h"
#include "support/rng.h"
#include "tcache/pool.h"

#define MEAN (128 * HK_KIB)
enum { SLOTS = 500, THREADS = 4 };

static uint64_t samples(void) { return hk_load(hk_global_counts[HK_GLOBAL_guard_samples]); }
static bool in_round(void) { return hk_mode_has(HK_MODE_IN_ROUND); }

static uint64_t shown_ns; /* the time, of which each call of the program takes 100 ns */

static uint64_t clock_shown(void) { return shown_ns; }

static void start(uint64_t mean)
{
    hk_options.guard_sample = mean;
    unit_start();
    shown_ns = 0;
    hk_os.clock_ns = clock_shown;
}

static uint64_t now_ms; /* the time that the background thread would see */

/* Lets a program allocate for so long that a round or a window would begin about 1000 times. */
static uint64_t samples_of(uint64_t bytes, void (*allocate)(void), size_t bytes_of_call)
{
    uint64_t before = samples(), calls = bytes / bytes_of_call;
    for (uint64_t i = 0; i < calls; i++) {
        if (i % (calls / 1000) == 0)
            hk_sample_round_if_due(now_ms += 4);
        shown_ns += 100;
        allocate();
    }
    return samples() - before;
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

/* First lets the rate of the previous loop be forgotten. */
static void assert_rate(void (*allocate)(void), size_t bytes_of_call)
{
    (void)samples_of(300 * MEAN, allocate, bytes_of_call);
    uint64_t taken = samples_of(1000 * MEAN, allocate, bytes_of_call);
    if (taken < 800 || taken > 1200)
        fail_msg("%lu samples were taken, and 1000 were due", taken);
}

static void try_programs(void)
{
    start(MEAN);
    assert_rate(small_loop, 112);
    assert_rate(larger_loop, 4096);
    assert_rate(zeroed_loop, 448);
    assert_rate(replace_one, 112);
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

/* Makes a round begin. If a window begins first, ends the window. */
static void begin_round(void)
{
    while (!in_round())
        assert_int_equal(hk_sample_round_if_due(now_ms += 4), 4);
}

/* A round ends soon if nothing is due, and after a limited number of calls if no block is small enough for a sample. */
UNIT_TEST(end_of_a_round)
{
    start(HK_MIB * HK_MIB);
    end_first_round();
    begin_round();
    int calls = 0;
    for (; in_round(); calls++)
        small_loop();
    assert_in_range(calls, 1, 64);
    assert_int_equal(samples(), 0);
    hk_tcache_self()->guarded.countdown.left = 0;
    hk_options.guard_sample = 1; /* the next round owes more samples than it can take */
    begin_round();
    end_first_round();
    uint64_t before = samples();
    assert_true(before > 0);
    begin_round();
    for (calls = 0; in_round(); calls++)
        hak_free(hak_malloc(20000));
    assert_in_range(calls, 2040, 2060);
    assert_int_equal(samples(), before);
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

/* In a window, each call is counted, and is no sample. A fork child does not inherit an open window. */
UNIT_TEST(a_window_counts)
{
    start(MEAN);
    end_first_round();
    uint64_t before = hk_tcaches_served(CLASS_OF_112), taken = samples();
    assert_int_equal(hk_sample_round_if_due(now_ms += 4), 4);
    assert_true(hk_gate.sizes_below == 0 && !in_round());
    for (int i = 0; i < 1000; i++)
        small_loop();
    assert_int_equal(hk_tcaches_served(CLASS_OF_112), before + 1000);
    assert_int_equal(samples(), taken);
    hk_sample_rounds_begin();
    assert_true(in_round());
    end_first_round();
    assert_true(hk_gate.sizes_below > 0);
}

/* Without a background thread there are no more rounds. Then each miss counts as the bytes of a refill. */
UNIT_TEST(misses_without_a_background_thread)
{
    static void *blocks[100000];
    hk_options.background = HK_BACKGROUND_OFF;
    start(MEAN);
    end_first_round();
    uint64_t before = samples();
    for (int i = 0; i < 100000; i++)
        blocks[i] = hak_malloc(112);
    assert_in_range(samples() - before, 40, 130); /* 85 are due */
    for (int i = 0; i < 100000; i++)
        hak_free(blocks[i]);
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
    begin_round();
    uint64_t before = samples();
    end_first_round();
    assert_in_range(samples() - before, 450, 560);
}

static void loop_in_thread(void *bytes)
{
    for (size_t left = *(size_t *)bytes; left > 112; left -= 112)
        small_loop();
}

/* Threads that end leave no round open. */
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
    begin_round();
    assert_int_equal(hk_gate.sizes_below | hk_gate.coarse_sizes, 0);
    hk_gate_shut(HK_SHUT_ATTACHED);
    end_first_round();
    assert_int_equal(hk_gate.sizes_below | hk_gate.coarse_sizes, 0);
    hk_gate_release(HK_SHUT_ATTACHED);
    assert_int_equal(hk_gate.sizes_below, fine);
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
                                       cmocka_unit_test(a_window_counts),
                                       cmocka_unit_test(misses_without_a_background_thread),
                                       cmocka_unit_test(off),
                                       cmocka_unit_test(too_many),
                                       cmocka_unit_test(threads),
                                       cmocka_unit_test(gate)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
