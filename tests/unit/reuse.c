/* Tests that memory that is used again is counted by the time for which it was idle. */
#include "unit/unit.h"

#include "base/bits.h"
#include "count/stats.h"
#include "hakmem.h"
#include "slab/slab.h"
#include "span/footprint.h"
#include "span/page_heap.h"
#include "support/knobs.h"
#include "decay/decay.h"

static uint64_t back(unsigned span) { return hk_load(hk_reuse.xback[span]); }

UNIT_TEST(spans)
{
    static const struct {
        uint64_t ms;
        unsigned span;
    } cases[] = {{0, 0},   {64, 0},   {65, 1},   {128, 1},   {129, 2},
                 {512, 3}, {8192, 7}, {8193, 8}, {16384, 8}, {UINT64_MAX, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t before = back(cases[i].span);
        hk_reuse_back(cases[i].ms, 1000);
        assert_int_equal(back(cases[i].span) - before, 1000);
    }
}

static void let_pass(uint64_t ms)
{
    fake_os_pass_ms(ms);
    struct hk_ticker ticker = hk_decay_first_ticker();
    hk_decay_read_clock(&ticker);
    hk_decay_tick(&ticker);
}

UNIT_TEST(slices)
{
    fake_os_reset();
    unit_start();
    let_pass(1);
    uintptr_t run = hk_span_alloc(4, HK_USE_SPARSE, &(bool){false});
    uint64_t idled = hk_load(hk_reuse.xidled), soon = back(0), later = back(3);
    hk_span_free(run, 4);
    assert_int_equal(hk_load(hk_reuse.xidled) - idled, 4 * HK_SLICE);
    let_pass(40);
    assert_int_equal(hk_span_alloc(4, HK_USE_SPARSE, &(bool){false}), run);
    assert_int_equal(back(0) - soon, 4 * HK_SLICE);
    hk_span_free(run, 4);
    let_pass(300);
    hk_page_heap_purge(hk_reuse_now(), 0, SIZE_MAX, true); /* Slices that were purged count as reused too. */
    assert_int_equal(hk_span_alloc(4, HK_USE_SPARSE, &(bool){false}), run);
    assert_int_equal(back(3) - later, 4 * HK_SLICE);
    assert_int_equal(hk_load(hk_reuse.xidled) - idled, 8 * HK_SLICE);
}

/* A huge page makes slices resident that were never used. The first use of these slices does not count as reuse. If slices are purged with their
 * huge page and then used again, this counts as reuse. */
UNIT_TEST(units_on_a_huge_page)
{
    fake_os_reset();
    unit_start();
    SET_KNOB(huge_pages_from, 1);
    hk_add(hk_footprint.xbig, 1);
    let_pass(1);
    uintptr_t run = hk_span_alloc(4, HK_USE_DENSE, &(bool){false});
    uint64_t soon = back(0), later = back(3);
    uintptr_t fresh = hk_span_alloc(2, HK_USE_DENSE, &(bool){false});
    assert_int_equal(back(0) - soon, 0);
    hk_span_free(fresh, 2);
    hk_span_free(run, 4);
    let_pass(300);
    assert_int_equal(hk_page_heap_purge(hk_reuse_now(), 0, SIZE_MAX, true), HK_CHUNK);
    assert_int_equal(hk_span_alloc(4, HK_USE_DENSE, &(bool){false}), run);
    assert_int_equal(back(3) - later, 4 * HK_SLICE);
}

UNIT_TEST(large_blocks)
{
    fake_os_reset();
    unit_start();
    SET_KNOB(huge_blocks_from, 0);
    let_pass(1);
    void *block = hak_malloc(4 * HK_MIB);
    uint64_t idled = hk_load(hk_reuse.xidled), before = back(2);
    hak_free(block);
    assert_int_equal(hk_load(hk_reuse.xidled) - idled, 4 * HK_MIB);
    let_pass(192);
    block = hak_malloc(4 * HK_MIB);
    assert_int_equal(back(2) - before, 4 * HK_MIB);
    hak_free(block);
    let_pass(192);
    hak_malloc_trim(0);
    block = hak_malloc(4 * HK_MIB); /* The new block lies where the last one was unmapped. */
    assert_int_equal(back(2) - before, 8 * HK_MIB);
    hak_free(block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(spans), cmocka_unit_test(slices),
                                       cmocka_unit_test(units_on_a_huge_page), cmocka_unit_test(large_blocks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
