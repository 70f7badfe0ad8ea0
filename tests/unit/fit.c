/* Tests that hk_fit finds the same nearest block as a search of all blocks, although it looks at only a few of thousands of blocks. */
#include "unit/unit.h"

#include "base/bits.h"
#include "support/rng.h"
#include "large/large_cache.h"

enum { BLOCKS = 48, MANY = 5000, ROUNDS = 50000, LOOKS = 64 };

static struct hk_fit fit;
static struct hk_large_block blocks[MANY];
static bool inside[MANY];

static void make(unsigned n, size_t bytes, uintptr_t start)
{
    blocks[n] = (struct hk_large_block){.d = {.bytes = bytes, .start = start}};
    hk_fit_add(&fit, &blocks[n]);
    inside[n] = true;
}

static size_t size_of_all_kinds(struct rng *rng)
{
    size_t bytes = (size_t)(16 + rng_below(rng, 8))
                   << (12 + rng_below(rng, 9)); /* This size is from 64 KiB to 24 MiB, and equal sizes are frequent. */
    return rng_below(rng, 2) != 0 ? bytes : bytes + rng_below(rng, 64) * HK_PAGE;
}

static const struct hk_large_block *expected(const struct hk_want *want)
{
    const struct hk_large_block *best = NULL;
    for (unsigned n = 0; n < BLOCKS; n++)
        if (inside[n] && hk_fit_serves(&blocks[n], want) &&
            (best == NULL || hk_fit_distance(&blocks[n], want->bytes) < hk_fit_distance(best, want->bytes)))
            best = &blocks[n];
    return best;
}

UNIT_TEST(nearest_of_all)
{
    struct rng rng = rng_seeded(3);
    unsigned found = 0;
    for (unsigned n = 0; n < BLOCKS; n++)
        make(n, size_of_all_kinds(&rng), rng_below(&rng, 64) * HK_SLICE);
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned n = rng_below(&rng, BLOCKS);
        if (inside[n])
            hk_fit_remove(&fit, &blocks[n]);
        inside[n] = !inside[n];
        if (inside[n])
            make(n, size_of_all_kinds(&rng), rng_below(&rng, 64) * HK_SLICE);
        size_t bytes = size_of_all_kinds(&rng);
        struct hk_want want =
            hk_want_for(bytes, bytes * (1 + rng_below(&rng, 4)), (size_t)HK_PAGE << rng_below(&rng, 6));
        const struct hk_large_block *best = hk_fit_nearest(&fit, &want, NULL), *right = expected(&want);
        assert_int_equal(best != NULL, right != NULL);
        found += best != NULL;
        if (best != NULL) {
            assert_true(hk_fit_serves(best, &want));
            assert_int_equal(hk_fit_distance(best, bytes), hk_fit_distance(right, bytes));
        }
    }
    assert_in_range(found, ROUNDS / 4, ROUNDS - ROUNDS / 20);
}

UNIT_TEST(newest_of_one_size)
{
    struct hk_want want = hk_want_for(HK_MIB, HK_MIB, HK_PAGE);
    for (unsigned n = 0; n < MANY; n++)
        make(n, HK_MIB, n * HK_SLICE);
    for (unsigned n = MANY; n-- > 0;) {
        assert_ptr_equal(hk_fit_nearest(&fit, &want, NULL), &blocks[n]);
        hk_fit_remove(&fit, &blocks[n]);
    }
    assert_null(hk_fit_nearest(&fit, &want, NULL));
    assert_int_equal(fit.count, 0);
}

/* The search ends without a result after LOOKS blocks that cannot serve the request. */
UNIT_TEST(few_looks)
{
    struct hk_want want = hk_want_for(HK_MIB, 4 * HK_MIB, HK_CHUNK);
    make(0, HK_MIB, HK_CHUNK);
    for (unsigned n = 1; n < LOOKS; n++)
        make(n, HK_MIB, HK_SLICE);
    assert_ptr_equal(hk_fit_nearest(&fit, &want, NULL), &blocks[0]);
    make(LOOKS, HK_MIB, HK_SLICE);
    assert_null(hk_fit_nearest(&fit, &want, NULL));
}

/* Only a block that fits better replaces the caller's candidate. */
UNIT_TEST(better_than_one)
{
    struct hk_large_block own = {.d = {.bytes = 3 * HK_MIB}};
    struct hk_want want = hk_want_for(2 * HK_MIB, 4 * HK_MIB, HK_PAGE);
    assert_true(hk_fit_narrow(&want, &own));
    make(0, 3 * HK_MIB, 0);
    assert_ptr_equal(hk_fit_nearest(&fit, &want, &own), &own);
    make(1, 3 * HK_MIB - HK_PAGE, 0);
    assert_ptr_equal(hk_fit_nearest(&fit, &want, &own), &blocks[1]);
    make(2, 3 * HK_MIB / 2, 0);
    assert_ptr_equal(hk_fit_nearest(&fit, &want, &own), &blocks[2]);
}

UNIT_TEST(absurd_sizes)
{
    make(0, HK_SLICE, 0);
    struct hk_want wants[] = {
        hk_want_for(PTRDIFF_MAX / 2, SIZE_MAX, HK_PAGE),
        hk_want_for(HK_SLICE, 0, HK_PAGE),
        hk_want_for((size_t)1 << 47, (size_t)1 << 48, HK_CHUNK),
    };
    for (unsigned i = 0; i < sizeof wants / sizeof wants[0]; i++)
        assert_null(hk_fit_nearest(&fit, &wants[i], NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nearest_of_all),  cmocka_unit_test(newest_of_one_size), cmocka_unit_test(few_looks),
        cmocka_unit_test(better_than_one), cmocka_unit_test(absurd_sizes),
    };
    return cmocka_run_group_tests_name("fit", tests, NULL, NULL);
}
