/* Tests that the extents find the mapping at or below an address after any sequence of changes. The tree must stay balanced if the addresses come
 * in order. */
#include "unit/unit.h"

#include "support/rng.h"
#include "large/large_state.h"

enum { BLOCKS = 1000, ROUNDS = 20000 };

static struct hk_large_block blocks[BLOCKS];
static bool inside[BLOCKS];

static void set_up(bool in_order)
{
    hk_large.extents = NULL;
    for (unsigned i = 0; i < BLOCKS; i++) {
        unsigned n = in_order ? i : i * 7 % BLOCKS;
        blocks[n].d.start = (n + 1) * HK_CHUNK;
        blocks[n].d.bytes = HK_MIB;
        inside[n] = true;
        hk_extents_add(&blocks[n]);
    }
}

static unsigned depth(const struct hk_large_block *large)
{
    if (large == NULL)
        return 0;
    unsigned lower = depth(large->child[0]), higher = depth(large->child[1]);
    return 1 + (lower > higher ? lower : higher);
}

static struct hk_large_block *expected(uintptr_t end)
{
    for (unsigned n = BLOCKS; n > 0; n--)
        if (inside[n - 1] && blocks[n - 1].d.start < end)
            return &blocks[n - 1];
    return NULL;
}

static struct hk_large_block *expected_from(uintptr_t start)
{
    for (unsigned n = 0; n < BLOCKS; n++)
        if (inside[n] && blocks[n].d.start >= start)
            return &blocks[n];
    return NULL;
}

UNIT_TEST(flat)
{
    for (unsigned in_order = 0; in_order < 2; in_order++) {
        set_up(in_order);
        assert_in_range(depth(hk_large.extents), 10, 30);
    }
}

UNIT_TEST(empty)
{
    assert_null(hk_extents_nearest(UINTPTR_MAX, HK_LOWER));
    assert_null(hk_extents_nearest(0, HK_HIGHER));
    blocks[0].d.start = HK_CHUNK;
    hk_extents_add(&blocks[0]);
    assert_null(hk_extents_nearest(HK_CHUNK, HK_LOWER));
    assert_ptr_equal(hk_extents_nearest(HK_CHUNK + 1, HK_LOWER), &blocks[0]);
    hk_extents_remove(&blocks[0]);
    assert_null(hk_large.extents);
}

UNIT_TEST(as_a_plain_search)
{
    struct rng rng = rng_seeded(11);
    set_up(false);
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned n = (unsigned)rng_below(&rng, BLOCKS);
        (inside[n] ? hk_extents_remove : hk_extents_add)(&blocks[n]);
        inside[n] = !inside[n];
        uintptr_t end = rng_below(&rng, (BLOCKS + 2) * HK_CHUNK);
        assert_ptr_equal(hk_extents_nearest(end, HK_LOWER), expected(end));
        assert_ptr_equal(hk_extents_nearest(end, HK_HIGHER), expected_from(end));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(flat), cmocka_unit_test(empty),
                                       cmocka_unit_test(as_a_plain_search)};
    return cmocka_run_group_tests_name("extents", tests, NULL, NULL);
}
