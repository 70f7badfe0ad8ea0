/* Tests both look-up tables of the size classes against the rows of classes.def, for all sizes. */
#include "unit/unit.h"

#include <string.h>

#include "base/bits.h"
#include "policy/classes.h"

static unsigned smallest_that_holds(size_t size, size_t align)
{
    unsigned class = 0;
    while (class < HK_CLASSES && (hk_classes[class].size < size || hk_classes[class].size % align != 0))
        class ++;
    return class;
}

UNIT_TEST(every_size)
{
    unsigned expected = 0;
    for (size_t size = 0; size <= HK_MEDIUM_MAX; size++) {
        if (size > hk_classes[expected].size)
            expected++;
        if (hk_class_of(size) != expected)
            fail_msg("size %zu: class %u, not %u", size, hk_class_of(size), expected);
    }
    assert_int_equal(expected, HK_CLASSES - 1);
}

UNIT_TEST(every_alignment)
{
    for (size_t align = 1; align <= 64 * HK_KIB; align *= 2)
        for (size_t size = 1; size <= HK_MEDIUM_MAX; size += size < 5000 ? 1 : 509)
            assert_int_equal(hk_class_of_aligned(size, align), smallest_that_holds(size, align));
    assert_int_equal(hk_class_of_aligned(HK_MEDIUM_MAX + 1, 16), HK_CLASSES);
    assert_int_equal(hk_class_of_aligned(HK_MEDIUM_MAX, 65536), HK_CLASSES - 1);
}

/* Tests the promises of the comment in classes.def about the rows. */
UNIT_TEST(rows)
{
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        const struct hk_class *row = &hk_classes[class];
        assert_true(row->size <= row->slab_bytes);
        assert_int_equal(row->slab_bytes % (64 * HK_KIB), 0);
        assert_true(hk_is_pow2((size_t)row->cap + 1));
        assert_true(class == 0 || row->size > hk_classes[class - 1].size);
        assert_true(class == 0 || row->tier >= hk_classes[class - 1].tier);
        /* In a class above 64 bytes, the smallest size wastes less than a fifth of the block. */
        if (row->size > 64)
            assert_true((row->size - hk_classes[class - 1].size - 1) * 5 < row->size);
        assert_int_equal(row->tier == HK_TIER_MEDIUM, row->size > HK_FINE_MAX);
    }
    assert_string_equal(hk_tier_names[HK_TIER_TINY], "tiny");
    assert_string_equal(hk_tier_names[HK_TIER_SMALL], "small");
    assert_string_equal(hk_tier_names[HK_TIER_MEDIUM], "medium");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size),
        cmocka_unit_test(every_alignment),
        cmocka_unit_test(rows),
    };
    return cmocka_run_group_tests_name("classes", tests, NULL, NULL);
}
