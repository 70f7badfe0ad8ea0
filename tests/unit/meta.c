/* Meta: zeroed, aligned, never overlapping; accounted for to the byte; NULL when refused. */
#include "unit/unit.h"

#include <string.h>

#include "span/map.h"
#include "span/meta.h"
#include "support/pattern.h"
#include "support/rng.h"

enum { SLOTS = 200, STEPS = 5000 };

static size_t rounded(size_t size) { return (size + 63) / 64 * 64; }

UNIT_TEST(random_load)
{
    struct {
        unsigned char *p;
        size_t size;
    } slots[SLOTS] = {{NULL, 0}};
    struct rng rng = rng_seeded(3);
    size_t used = 0;
    for (uint64_t step = 0; step < STEPS; step++) {
        uint32_t i = rng_below(&rng, SLOTS);
        if (slots[i].p == NULL) {
            slots[i].size = 1 + rng_below(&rng, rng_below(&rng, 8) == 0 ? 65536 : 700);
            slots[i].p = hk_meta_alloc(slots[i].size);
            assert_non_null(slots[i].p);
            assert_int_equal((uintptr_t)slots[i].p % 64, 0);
            assert_true(all_zero(slots[i].p, slots[i].size));
            pattern_fill(slots[i].p, slots[i].size, i);
            used += rounded(slots[i].size);
        } else {
            assert_true(pattern_holds(slots[i].p, slots[i].size, i));
            hk_meta_free(slots[i].p, slots[i].size);
            slots[i].p = NULL;
            used -= rounded(slots[i].size);
        }
        assert_true(used <= hk_meta_mapped() - hk_meta_unused());
    }
}

UNIT_TEST(reuse)
{
    void *first = hk_meta_alloc(1000);
    memset(first, 0xff, 1000);
    size_t mapped = hk_meta_mapped(), unused = hk_meta_unused();
    hk_meta_free(first, 1000);
    assert_int_equal(hk_meta_unused(), unused + 1024);
    unsigned char *again = hk_meta_alloc(1001);
    assert_ptr_equal(again, first);
    assert_true(all_zero(again, 1024));
    assert_int_equal(hk_meta_mapped(), mapped);
    assert_int_equal(hk_meta_unused(), unused);
}

UNIT_TEST(refused)
{
    fake_os_refuse(fake_refuse_map);
    assert_null(hk_meta_alloc(64));
    assert_int_equal(hk_meta_mapped(), 0);
    fake_os_refuse(NULL);
    assert_non_null(hk_meta_alloc(64));
}

static bool refuse_first(enum fake_call call, uint64_t ordinal)
{
    (void)call;
    return ordinal == 1;
}

/* No room for a chunk: just enough pages for what is asked. */
UNIT_TEST(only_pages)
{
    fake_os_refuse(refuse_first);
    assert_non_null(hk_meta_alloc(5000));
    assert_int_equal(hk_meta_mapped(), 8192);
}

/* Every block lies in a stretch; the stretches are all that is mapped. */
UNIT_TEST(stretches)
{
    enum { BLOCKS = 100 };
    void *blocks[BLOCKS];
    size_t bytes = 0, within = 0;
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = hk_meta_alloc(20000);
    for (uintptr_t at = 0, from = 0, to = UINTPTR_MAX; hk_meta_next(&from, &to); from = at, to = UINTPTR_MAX) {
        bytes += to - from;
        for (int i = 0; i < BLOCKS; i++)
            within += (uintptr_t)blocks[i] >= from && (uintptr_t)blocks[i] + 20000 <= to;
        at = to;
    }
    assert_int_equal(bytes, hk_meta_mapped());
    assert_int_equal(within, BLOCKS);
    uintptr_t from = (uintptr_t)blocks[0] + 10, to = from + 5;
    assert_true(hk_meta_next(&from, &to));
    assert_int_equal(from, (uintptr_t)blocks[0] + 10);
    assert_int_equal(to, from + 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_load), cmocka_unit_test(reuse),
                                       cmocka_unit_test(refused), cmocka_unit_test(only_pages), cmocka_unit_test(stretches)};
    return cmocka_run_group_tests_name("meta", tests, NULL, NULL);
}
