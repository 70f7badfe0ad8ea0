/* Tests that an area hands out each line once, zeroed and lowest first. Idle pages can be withdrawn, and come back zeroed. */
#include "unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "span/meta_regions.h"
#include "support/pattern.h"
#include "support/rng.h"

enum { SLOTS = 64, STEPS = 20000, PAGE = 4096, ALL = HK_META_AREA_LINES - HK_META_AREA_HEADER };

static struct hk_meta_area *area;

static void start(void)
{
    area = aligned_alloc(HK_META_AREA_BYTES, HK_META_AREA_BYTES);
    assert_non_null(area);
    memset(area, 0xee, HK_META_AREA_BYTES);
    hk_meta_area_init(area);
    assert_int_equal(area->free, 0);
    hk_meta_area_free(area, (char *)area + HK_META_AREA_HEADER * HK_META_LINE, ALL);
}

static void *take_soiling(unsigned lines, unsigned *soiled)
{
    unsigned dirty = area->dirty;
    struct hk_meta_range taken = hk_meta_area_alloc(area, lines, lines);
    *soiled = area->dirty & ~dirty;
    if (taken.start == NULL)
        return NULL;
    assert_int_equal(taken.end - taken.start, lines * HK_META_LINE);
    if (taken.zero)
        assert_true(all_zero((unsigned char *)taken.start, lines * (size_t)HK_META_LINE));
    else
        memset(taken.start, 0, lines * (size_t)HK_META_LINE);
    return taken.start;
}

static void *take(unsigned lines)
{
    unsigned soiled;
    return take_soiling(lines, &soiled);
}

/* A request gets as many lines as are free in a row, from its minimum up to its maximum. */
UNIT_TEST(least_and_most)
{
    start();
    struct hk_meta_range first = hk_meta_area_alloc(area, 3, 100), second = hk_meta_area_alloc(area, 3, 100);
    assert_int_equal(first.end - first.start, 100 * HK_META_LINE);
    assert_ptr_equal(second.start, first.end);
    hk_meta_area_free(area, first.start + 10 * HK_META_LINE, 20);
    struct hk_meta_range third = hk_meta_area_alloc(area, 3, 100);
    assert_ptr_equal(third.start, first.start + 10 * HK_META_LINE);
    assert_int_equal(third.end - third.start, 20 * HK_META_LINE);
    hk_meta_area_free(area, first.start + 50 * HK_META_LINE, 2);
    assert_ptr_equal(hk_meta_area_alloc(area, 3, 100).start, second.end);
    struct hk_meta_range rest = hk_meta_area_alloc(area, 3, HK_META_AREA_LINES);
    assert_ptr_equal(rest.end, (char *)area + HK_META_AREA_BYTES);
    assert_null(hk_meta_area_alloc(area, 3, 100).start);
    assert_ptr_equal(hk_meta_area_alloc(area, 1, 100).start, first.start + 50 * HK_META_LINE);
}

UNIT_TEST(random_load)
{
    struct {
        unsigned char *p;
        unsigned lines;
    } slots[SLOTS] = {{NULL, 0}};
    struct rng rng = rng_seeded(5);
    unsigned used = 0, refused = 0;
    start();
    for (unsigned step = 0; step < STEPS; step++) {
        uint32_t i = rng_below(&rng, SLOTS);
        if (slots[i].p != NULL) {
            assert_true(pattern_holds(slots[i].p, slots[i].lines * (size_t)HK_META_LINE, i));
            hk_meta_area_free(area, slots[i].p, slots[i].lines);
            used -= slots[i].lines;
            slots[i].p = NULL;
            continue;
        }
        slots[i].lines = 1 + rng_below(&rng, rng_below(&rng, 6) == 0 ? 150 : 20);
        slots[i].p = take(slots[i].lines);
        if (slots[i].p == NULL) {
            refused++;
            continue;
        }
        assert_true(all_zero(slots[i].p, slots[i].lines * (size_t)HK_META_LINE));
        assert_true(hk_align_down((uintptr_t)slots[i].p, HK_META_AREA_BYTES) == (uintptr_t)area);
        pattern_fill(slots[i].p, slots[i].lines * (size_t)HK_META_LINE, i);
        used += slots[i].lines;
        assert_int_equal(area->free, ALL - used);
    }
    assert_true(refused > 0);
}

/* All lines of an area can be allocated, one by one or as one block. */
UNIT_TEST(all_of_it)
{
    start();
    char *first = take(1), *last = first;
    for (unsigned i = 1; i < ALL; i++) {
        char *next = take(1);
        assert_ptr_equal(next, last + HK_META_LINE);
        last = next;
    }
    assert_null(take(1));
    assert_int_equal(area->longest, 0);
    for (unsigned i = 0; i < ALL; i++)
        hk_meta_area_free(area, first + (size_t)i * HK_META_LINE, 1);
    assert_ptr_equal(take(ALL), first);
    hk_meta_area_free(area, first, ALL);
    assert_null(take(ALL + 1));
}

/* A failed search lowers the upper bound of the longest free run, until lines are freed. */
UNIT_TEST(longest)
{
    start();
    char *block[5];
    for (int i = 0; i < 5; i++)
        block[i] = take(100);
    take(ALL - 500);
    hk_meta_area_free(area, block[1], 100);
    hk_meta_area_free(area, block[3], 100);
    assert_null(take(150));
    assert_int_equal(area->longest, 100);
    hk_meta_area_free(area, block[2], 100);
    assert_ptr_equal(take(300), block[1]);
}

static void return_cleaned(unsigned pages)
{
    hk_meta_area_mark_pages(area, pages, false);
    area->dirty = (uint16_t)(area->dirty & ~pages);
}

UNIT_TEST(idle_pages)
{
    unsigned soiled;
    start();
    assert_int_equal(hk_meta_area_idle(area, true), 0xffff);
    assert_int_equal(hk_meta_area_idle(area, false), 0xfffe);
    hk_meta_area_mark_pages(area, 0xfffe, true);
    memset((char *)area + PAGE, 0, HK_META_AREA_BYTES - PAGE);
    return_cleaned(0xfffe);
    assert_int_equal(hk_meta_area_idle(area, true), 1);
    char *block = take_soiling(300, &soiled); /* The block lies in the pages 0 to 4. */
    assert_int_equal(soiled, 0x1e);
    memset(block, 0xff, 300 * HK_META_LINE);
    assert_int_equal(hk_meta_area_idle(area, true), 0);
    hk_meta_area_free(area, block, 300);
    assert_int_equal(hk_meta_area_idle(area, false), 0x1e);
    assert_int_equal(hk_meta_area_idle(area, true), 0x1f);

    hk_meta_area_mark_pages(area, 0x0c, true);
    char *other = take_soiling(100, &soiled); /* While pages are withdrawn, no block uses them. */
    assert_int_equal(soiled, 0);
    assert_true(other < (char *)area + 2 * PAGE);
    assert_true(all_zero(other, 100 * HK_META_LINE));
    memset((char *)area + 2 * PAGE, 0, 2 * PAGE);
    return_cleaned(0x0c);
    assert_int_equal(hk_meta_area_idle(area, false), 0x10);
    hk_meta_area_mark_pages(area, 0x10, true);
    hk_meta_area_mark_pages(area, 0x10, false); /* The system refused the purge, so the page is as dirty as before. */
    char *more = take_soiling(200, &soiled);
    assert_int_equal(soiled, 0x0c);
    assert_true(all_zero(more, 200 * HK_META_LINE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_load), cmocka_unit_test(all_of_it),
                                       cmocka_unit_test(longest), cmocka_unit_test(least_and_most),
                                       cmocka_unit_test(idle_pages)};
    return cmocka_run_group_tests_name("meta_area", tests, NULL, NULL);
}
