/* GiveBack: passes at most once an interval, only of what is due; everything when asked; before the heap grows beyond its level,
 * what lies idle. */
#include "unit/unit.h"

#include <string.h>

#include "count/stats.h"
#include "front/cache.h"
#include "support/knobs.h"
#include "span/runs.h"
#include "tiers/bigcache.h"
#include "tiers/blocks.h"
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
    assert_int_equal(hk_giveback_all(0), warm);
    assert_int_equal(still_warm(), 0);
    assert_int_equal(hk_giveback_all(0), 0);
}

/* What was freed last stays, as warm as it was, and a pass takes it when the delay is over. */
UNIT_TEST(all_but_what_is_to_be_kept)
{
    enum { SUPERS = 4 };
    uintptr_t supers[SUPERS];
    bool zeroed;
    unit_start();
    hk_giveback_all(0);
    char *block = hk_big_alloc(3 * HK_MIB, 16, &zeroed);
    for (unsigned i = 0; i < SUPERS; i++)
        memset((void *)(supers[i] = hk_run_alloc(HK_SUPER_UNITS, HK_USE_SPARSE)), 7, HK_SUPER);
    for (unsigned i = 0; i < SUPERS; i++) {
        fake_os_pass_ms(10);
        hk_run_free(supers[i], HK_SUPER_UNITS);
    }
    hk_big_free(block);
    size_t idle = still_warm();
    assert_int_equal(idle, SUPERS * HK_SUPER + 3 * HK_MIB);
    assert_int_equal(hk_giveback_all(idle), 0);
    assert_int_equal(still_warm(), idle);
    assert_int_equal(hk_giveback_all(idle - 1), HK_SUPER);
    assert_int_equal(hk_giveback_all(HK_SUPER + 3 * HK_MIB), 2 * HK_SUPER);
    assert_int_equal(still_warm(), HK_SUPER + 3 * HK_MIB);
    assert_int_equal(*(char *)supers[SUPERS - 1], 7);
    tick();
    assert_int_equal(still_warm(), HK_SUPER + 3 * HK_MIB);
    assert_int_equal(hk_giveback_all(3 * HK_MIB), HK_SUPER);
    assert_int_equal(hk_giveback_all(1), 3 * HK_MIB);
    assert_int_equal(still_warm(), 0);
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
    SET_KNOB(purge_delay, 1000);
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
    SET_KNOB(purge_delay, 0);
    unit_start();
    leave_free_memory();
    fake_os_pass_ms(1);
    tick();
    assert_int_equal(still_warm(), 0);
}

/* After a rest of everybody's, all that is free has been free for as long. */
UNIT_TEST(rested)
{
    SET_KNOB(purge_delay, 500);
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

/* What a thread is told at its tick, after so long. */
static bool growth_seen(struct hk_pulse *pulse, uint64_t ms)
{
    fake_os_pass_ms(ms);
    hk_giveback_look(pulse);
    return hk_giveback_growth(pulse);
}

static size_t warm(void) { return hk_runs_warm() + hk_big_mapped(); }

enum { MOST_SUPERS = 128, LEVEL_SUPERS = 32 }; /* 64 MiB: the least level there is */
static uintptr_t supers[MOST_SUPERS];
static unsigned held;

static void hold(unsigned count)
{
    while (held < count)
        assert_true((supers[held++] = hk_run_alloc(HK_SUPER_UNITS, HK_USE_SPARSE)) != 0);
}

static void hold_no_more_than(unsigned count)
{
    while (held > count)
        hk_run_free(supers[--held], HK_SUPER_UNITS);
}

UNIT_TEST(below_the_level)
{
    struct hk_pulse pulse = {0};
    unit_start();
    hold(LEVEL_SUPERS - 2);
    hold_no_more_than(10);
    size_t before = warm();
    assert_false(growth_seen(&pulse, 1000));
    assert_int_equal(warm(), before);
    assert_int_equal(fake_os_calls(FAKE_PURGE), 0);
}

static void map_mibs(unsigned count)
{
    bool zeroed;
    for (; count > 0; count--)
        assert_non_null(hk_big_alloc(HK_MIB, 16, &zeroed));
}

/* Above the level idle memory goes, twice what is too much and 4 MiB at least: units first, then big blocks. */
UNIT_TEST(paid_by_what_is_idle)
{
    struct hk_pulse pulse = {0};
    bool zeroed;
    unit_start();
    hold(24);
    hold_no_more_than(20);
    void *one = hk_big_alloc(6 * HK_MIB, 16, &zeroed), *other = hk_big_alloc(6 * HK_MIB, 16, &zeroed);
    hk_big_free(one);
    hk_big_free(other);
    hk_big_purge(hk_os.clock_ms(), 1000); /* sees them */
    assert_false(growth_seen(&pulse, 100));
    assert_int_equal(still_warm(), 4 * HK_SUPER + 12 * HK_MIB);
    map_mibs(5);
    size_t before = warm();
    assert_in_range(before, 65 * HK_MIB, 66 * HK_MIB);
    assert_false(growth_seen(&pulse, 0));
    assert_int_equal(before - warm(), 2 * HK_SUPER);
    assert_int_equal(still_warm(), 2 * HK_SUPER + 12 * HK_MIB);
    map_mibs(9);
    hold_no_more_than(19); /* free for no time: it stays */
    assert_false(growth_seen(&pulse, 0));
    assert_int_equal(still_warm(), HK_SUPER);
    before = warm();
    assert_true(before < 64 * HK_MIB);
    assert_false(growth_seen(&pulse, 1000));
    assert_int_equal(warm(), before);
}

/* With nothing to give back the level rises, by more than is warm, and each thread is told so once. */
UNIT_TEST(level_rises)
{
    struct hk_pulse one = {0}, other = {0};
    unit_start();
    hold(LEVEL_SUPERS + 8);
    assert_true(growth_seen(&one, 0));
    assert_false(growth_seen(&one, 0));
    assert_true(growth_seen(&other, 0));
    assert_false(growth_seen(&other, 1000));
    hold(LEVEL_SUPERS + 9); /* within the step */
    assert_false(growth_seen(&one, 0));
    hold(LEVEL_SUPERS + 12);
    assert_true(growth_seen(&other, 0));
    assert_true(growth_seen(&one, 0));
    assert_false(growth_seen(&other, 0));
    assert_false(growth_seen(&one, 0));
    assert_int_equal(fake_os_calls(FAKE_PURGE), 0);
}

UNIT_TEST(level_comes_down)
{
    struct hk_pulse pulse = {0};
    unit_start();
    hold(2 * LEVEL_SUPERS);
    assert_true(growth_seen(&pulse, 0));
    hold_no_more_than(10);
    hk_giveback_all(0);
    fake_os_pass_ms(1000);
    tick();
    hold(LEVEL_SUPERS + 4);
    assert_true(growth_seen(&pulse, 0));
    hold_no_more_than(LEVEL_SUPERS);
    hk_giveback_all(0);
    fake_os_pass_ms(1000);
    tick(); /* half of the level is in use: it stays */
    hold(LEVEL_SUPERS + 4);
    assert_false(growth_seen(&pulse, 0));
}

/* A sweep over slabs found so much; then the program wants it again. */
static void sweep_and_touch_again(struct hk_pulse *pulse, size_t bytes)
{
    struct hk_slab swept = {.bytes = bytes};
    HK_COUNT(purged_in_slabs, bytes);
    hk_slab_note_clean(&swept, UINT16_MAX);
    hk_giveback_swept(pulse);
    hk_slab_note_clean(&swept, 0);
}

/* The level follows a sweep that found much, unless what the sweep before it found came back. */
UNIT_TEST(level_follows_sweeps)
{
    struct hk_pulse pulse = {0};
    unit_start();
    hold(2 * LEVEL_SUPERS);
    assert_true(growth_seen(&pulse, 0));
    sweep_and_touch_again(&pulse, 16 * HK_MIB);
    assert_true(growth_seen(&pulse, 1000));
    sweep_and_touch_again(&pulse, 16 * HK_MIB);
    assert_false(growth_seen(&pulse, 1000));
}

/* So much is mapped that no round maps more; the level is what it was in the beginning. */
static void start_with_room(void)
{
    unit_start();
    hold(2 * LEVEL_SUPERS);
    hold_no_more_than(0);
    hk_giveback_all(0);
    assert_true(warm() < HK_SUPER);
}

enum { ROUNDS = 100, IDLE_SUPERS = 10, ROUND_MS = 20 };

/* The heap grows beyond the level by what was given back a moment ago: rounds until it is not given back once more. */
static unsigned rounds_paid(struct hk_pulse *pulse)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        hold(LEVEL_SUPERS + 8);
        hold_no_more_than(LEVEL_SUPERS + 8 - IDLE_SUPERS);
        if (growth_seen(pulse, ROUND_MS))
            return round;
    }
    return ROUNDS;
}

/* 256 KiB a ms, and what was not used of a quarter of a second. */
UNIT_TEST(paid_within_the_time)
{
    struct hk_pulse pulse = {0};
    start_with_room();
    unsigned ms_a_round = IDLE_SUPERS * HK_SUPER / (256 * HK_KIB) - ROUND_MS;
    assert_in_range(rounds_paid(&pulse), 250 / ms_a_round, 250 / ms_a_round + 2);
    assert_true(still_warm() >= IDLE_SUPERS * HK_SUPER);
}

/* Memory that is mapped for the first time cannot have been given back: it is paid for at any time. */
UNIT_TEST(paid_for_what_is_new)
{
    struct hk_pulse pulse = {0};
    bool zeroed;
    start_with_room();
    assert_in_range(rounds_paid(&pulse), 1, ROUNDS - 1);
    assert_non_null(hk_big_alloc(100 * HK_MIB, 16, &zeroed));
    size_t before = warm();
    growth_seen(&pulse, 0);
    assert_int_equal(before - warm(), IDLE_SUPERS * HK_SUPER);
}

/* Once time has passed, there is a share of it again. */
UNIT_TEST(paid_after_a_while)
{
    struct hk_pulse pulse = {0};
    start_with_room();
    assert_in_range(rounds_paid(&pulse), 1, ROUNDS - 1);
    hold(LEVEL_SUPERS + 14);
    hold_no_more_than(LEVEL_SUPERS + 14 - IDLE_SUPERS);
    size_t before = warm();
    assert_false(growth_seen(&pulse, 1000));
    assert_true(warm() < before);
}

enum { MANY = 1000, BLOCKS = 16, RANGES = BLOCKS / 2 };

/* Slabs of which every other page is free. */
static void leave_ranges(void *unused)
{
    (void)unused;
    struct hk_owner *owner = &hk_cache_self()->owner;
    static void *blocks[MANY * BLOCKS + 1];
    for (unsigned got = 0; got < MANY * BLOCKS;)
        got += hk_blocks_take(owner, CLASS_OF_4096, blocks + got + 1, 1);
    for (unsigned i = 1; i < MANY * BLOCKS; i += 2)
        assert_int_equal(hk_blocks_give(owner, &blocks[i], 1), 1);
}

static void leave_orphans(void *unused)
{
    hk_cache_begin();
    leave_ranges(unused);
}

/* That no lock is held over two calls, fake_os looks at; here are the calls. The background thread's lock lets others be trimmed. */
UNIT_TEST(one_call_a_hold)
{
    const size_t expected = (size_t)MANY * RANGES;
    unit_start();
    SET_KNOB(huge_pages_from, 0);
    hk_shelves_share();
    leave_ranges(NULL);
    fake_os_refuse(NULL);
    assert_int_equal(hk_giveback_all(0), expected * HK_PAGE);
    assert_in_range(fake_os_calls(FAKE_PURGE), expected, expected + 10);
    unit_in_thread(leave_orphans, NULL);
    fake_os_refuse(NULL);
    assert_in_range(hk_giveback_all(0), expected * HK_PAGE, (expected + 1000) * HK_PAGE);
    assert_in_range(fake_os_calls(FAKE_PURGE), 2 * expected, 2 * expected + 100);
}

UNIT_TEST(one_call_a_hold_in_background)
{
    const size_t expected = (size_t)MANY * RANGES;
    unit_start();
    SET_KNOB(huge_pages_from, 0);
    hk_shelves_share();
    unit_in_thread(leave_orphans, NULL);
    leave_ranges(NULL);
    fake_os_refuse(NULL);
    for (int i = 0; i < 20 && hk_giveback_in_background().waits; i++)
        fake_os_pass_ms(1000);
    assert_in_range(fake_os_calls(FAKE_PURGE), 2 * expected - RANGES, 2 * expected + 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all),
                                       cmocka_unit_test(all_but_what_is_to_be_kept),
                                       cmocka_unit_test(when_due),
                                       cmocka_unit_test(not_too_often),
                                       cmocka_unit_test(no_delay),
                                       cmocka_unit_test(rested),
                                       cmocka_unit_test(share_of_time),
                                       cmocka_unit_test(below_the_level),
                                       cmocka_unit_test(paid_by_what_is_idle),
                                       cmocka_unit_test(level_rises),
                                       cmocka_unit_test(level_comes_down),
                                       cmocka_unit_test(level_follows_sweeps),
                                       cmocka_unit_test(paid_within_the_time),
                                       cmocka_unit_test(paid_for_what_is_new),
                                       cmocka_unit_test(paid_after_a_while),
                                       cmocka_unit_test(one_call_a_hold),
                                       cmocka_unit_test(one_call_a_hold_in_background)};
    return cmocka_run_group_tests_name("giveback", tests, NULL, NULL);
}
