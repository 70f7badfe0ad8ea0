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

/* As a thread that was never here before. */
static void tick(void)
{
    struct hk_pulse pulse = {0};
    hk_giveback_look(&pulse);
    hk_giveback_tick(&pulse);
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
    tick();
    assert_int_equal(still_warm(), warm);
    for (int i = 0; i < 30 && still_warm() > 0; i++) {
        fake_os_pass_ms(100);
        tick();
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
    tick();
    leave_free_memory();
    fake_os_pass_ms(149);
    uint64_t before = hk_load(fake_os.xtotal);
    for (int i = 0; i < 1000; i++)
        tick();
    assert_int_equal(hk_load(fake_os.xtotal), before);
}

UNIT_TEST(no_delay)
{
    hk_options.purge_delay = 0;
    unit_start();
    leave_free_memory();
    fake_os_pass_ms(1);
    tick();
    assert_int_equal(still_warm(), 0);
}

/* After a rest of everybody's, all that is free has been free for as long. */
UNIT_TEST(rested)
{
    hk_options.purge_delay = 500;
    unit_start();
    fake_os_pass_ms(10000);
    tick();
    struct hk_pulse pulse = {0};
    assert_false(hk_giveback_look(&pulse));
    leave_free_memory();
    size_t warm = still_warm();
    fake_os_pass_ms(2000);
    assert_false(hk_giveback_look(&pulse));
    fake_os_pass_ms(2001);
    assert_true(hk_giveback_look(&pulse));
    assert_int_equal(still_warm(), warm);
    assert_true(hk_giveback_tick(&pulse));
    assert_int_equal(still_warm(), 0);
    assert_false(hk_giveback_look(&pulse));
}

/* The time that went by pays for the sweep. */
UNIT_TEST(share_of_time)
{
    struct hk_pulse pulse = {0};
    unit_start();
    hk_giveback_look(&pulse);
    assert_int_equal(hk_giveback_share(&pulse).effort, 0);
    fake_os_pass_ms(10);
    hk_giveback_look(&pulse);
    int64_t ten = hk_giveback_share(&pulse).effort;
    fake_os_pass_ms(100);
    hk_giveback_look(&pulse);
    assert_true(ten > 0);
    assert_int_equal(hk_giveback_share(&pulse).effort, 10 * ten);
    assert_int_equal(hk_giveback_share(&pulse).touched + 100, hk_giveback_share(&pulse).now);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all), cmocka_unit_test(when_due),
                                       cmocka_unit_test(not_too_often), cmocka_unit_test(no_delay),
                                       cmocka_unit_test(rested), cmocka_unit_test(share_of_time)};
    return cmocka_run_group_tests_name("giveback", tests, NULL, NULL);
}
