/* GiveBack: passes at most once an interval, only of what is due; everything when asked. */
#include "unit/unit.h"

#include "policy/options.h"
#include "span/runs.h"
#include "tiers/bigcache.h"
#include "tiers/giveback.h"

static void leave_free_memory(void)
{
    bool zeroed;
    uintptr_t run = hk_run_alloc(4, HK_USE_SPARSE);
    void *block = hk_big_alloc(2 * HK_MIB, 16, &zeroed);
    assert_true(run != 0 && block != NULL);
    *(char *)run = *(char *)block = 1;
    hk_run_free(run, 4);
    hk_big_free(block);
}

static size_t still_warm(void)
{
    struct hk_runs_totals runs;
    struct hk_big_totals bigs;
    hk_runs_total(&runs);
    hk_big_total(&bigs);
    return runs.free_dirty + bigs.cached;
}

UNIT_TEST(all)
{
    unit_start();
    leave_free_memory();
    size_t warm = still_warm();
    assert_true(warm >= 4 * HK_UNIT + 2 * HK_MIB);
    assert_int_equal(hk_giveback_all(), warm);
    assert_int_equal(still_warm(), 0);
    assert_int_equal(hk_giveback_all(), 0);
}

UNIT_TEST(when_due)
{
    unit_start();
    leave_free_memory();
    size_t warm = still_warm();
    hk_giveback_tick(&(uint64_t){0});
    assert_int_equal(still_warm(), warm);
    for (int i = 0; i < 30 && still_warm() > 0; i++) {
        fake_os_pass_ms(100);
        hk_giveback_tick(&(uint64_t){0});
        if (i < 4)
            assert_int_equal(still_warm(), warm);
    }
    assert_int_equal(still_warm(), 0);
}

/* The clock is asked each time, the system at most once an interval. */
UNIT_TEST(not_too_often)
{
    hk_options.purge_delay = 1000;
    unit_start();
    fake_os_pass_ms(10000);
    hk_giveback_tick(&(uint64_t){0});
    leave_free_memory();
    fake_os_pass_ms(149);
    uint64_t before = hk_load(fake_os.xtotal);
    for (int i = 0; i < 1000; i++)
        hk_giveback_tick(&(uint64_t){0});
    assert_int_equal(hk_load(fake_os.xtotal), before);
}

UNIT_TEST(no_delay)
{
    hk_options.purge_delay = 0;
    unit_start();
    leave_free_memory();
    fake_os_pass_ms(1);
    hk_giveback_tick(&(uint64_t){0});
    assert_int_equal(still_warm(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all), cmocka_unit_test(when_due),
                                       cmocka_unit_test(not_too_often), cmocka_unit_test(no_delay)};
    return cmocka_run_group_tests_name("giveback", tests, NULL, NULL);
}
