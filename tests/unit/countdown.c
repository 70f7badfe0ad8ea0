/* Tests that estimates from samples are unbiased for all sizes. The formula by which readers scale counts and bytes must agree with the weights. */
#include "unit/unit.h"

#include <math.h>

#include "count/countdown.h"
#include "support/rng.h"

enum { MEAN = 4096, RUNS = 400, BLOCKS = 2000 };

static bool passes(struct hk_countdown *countdown, size_t bytes)
{
    return hk_countdown_runs_out(countdown, bytes) && hk_countdown_picks(countdown, MEAN);
}

/* Returns the sum of the estimates divided by the sum of the sizes. `draw` chooses the size of each block. Each run starts with a new countdown,
 * as a new thread does. */
static double estimated(size_t (*draw)(struct rng *rng), bool seeded)
{
    struct rng rng = rng_seeded(11);
    double bytes = 0, estimate = 0;
    for (uint64_t run = 1; run <= RUNS; run++) {
        struct hk_countdown countdown = {.left = seeded ? -1 : 0, .random = seeded ? run : 0};
        if (seeded)
            assert_true(hk_countdown_picks(&countdown, MEAN));
        for (int i = 0; i < BLOCKS; i++) {
            size_t size = draw(&rng);
            bytes += (double)size;
            if (passes(&countdown, size))
                estimate += (double)hk_countdown_weight(size, MEAN);
        }
    }
    return estimate / bytes;
}

static size_t small(struct rng *rng) { return 1 + rng_below(rng, 100); }
static size_t near_mean(struct rng *rng) { return MEAN / 2 + rng_below(rng, MEAN); }
static size_t large(struct rng *rng) { return 20 * MEAN + rng_below(rng, MEAN); }
static size_t mixed(struct rng *rng) { return rng_below(rng, 4) == 0 ? large(rng) : small(rng); }

static void assert_near(double value, double expected, double error)
{
    if (fabs(value - expected) > error * expected)
        fail_msg("%g, not %g within %g", value, expected, error);
}

UNIT_TEST(unbiased)
{
    assert_near(estimated(small, true), 1, 0.03);
    assert_near(estimated(near_mean, true), 1, 0.01);
    assert_near(estimated(large, true), 1, 0.001);
    assert_near(estimated(mixed, true), 1, 0.01);
}

/* A countdown without a seed chooses one, and its estimates are unbiased too. */
UNIT_TEST(begins_by_itself) { assert_near(estimated(near_mean, false), 1, 0.01); }

/* The gaps between samples have an exponential distribution with the mean of the option: half of them lie below the median, and a share of 1/e
 * lies above the mean. */
UNIT_TEST(gaps)
{
    enum { GAPS = 100000 };
    struct hk_countdown countdown = {.random = 5};
    double sum = 0;
    int below_median = 0, beyond_mean = 0;
    for (int i = 0; i < GAPS; i++) {
        countdown.left = -1;
        assert_true(hk_countdown_picks(&countdown, MEAN));
        double gap = (double)countdown.left;
        sum += gap;
        below_median += gap < MEAN * 0.693147;
        beyond_mean += gap > MEAN;
    }
    assert_near(sum / GAPS, MEAN, 0.02);
    assert_near((double)below_median / GAPS, 0.5, 0.02);
    assert_near((double)beyond_mean / GAPS, 0.367879, 0.02);
}

UNIT_TEST(weights)
{
    const double sizes[] = {1, 16, 100, 4095, 4096, 5000, 65536, 1 << 20, 1e12};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        assert_near((double)hk_countdown_weight((size_t)sizes[i], MEAN), round(sizes[i] / -expm1(-sizes[i] / MEAN)),
                    1e-9);
}

/* Bytes that are counted at once end as many gaps as bytes that are counted call by call. */
UNIT_TEST(many_calls_at_once)
{
    struct hk_countdown countdown = {0, 0};
    unsigned ends = 0;
    for (int i = 0; i < 10000; i++)
        ends += hk_countdown_ends(&countdown, 10 * MEAN, MEAN, 1000);
    assert_near(ends, 100000, 0.02);
    assert_int_equal(hk_countdown_ends(&countdown, (uint64_t)1 << 46, MEAN, 7), 7);
    assert_true(countdown.left >= 0);
    assert_int_equal(hk_countdown_ends(&countdown, 0, MEAN, 7), 0);
}

UNIT_TEST(nothing_passes_unseen)
{
    struct hk_countdown countdown = {.left = -1, .random = 1};
    assert_true(hk_countdown_picks(&countdown, MEAN));
    assert_true(passes(&countdown, (size_t)1 << 46));
    for (int i = 0; i < 1000; i++)
        assert_false(passes(&countdown, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unbiased), cmocka_unit_test(begins_by_itself),   cmocka_unit_test(gaps),
        cmocka_unit_test(weights),  cmocka_unit_test(many_calls_at_once), cmocka_unit_test(nothing_passes_unseen)};
    return cmocka_run_group_tests_name("countdown", tests, NULL, NULL);
}
