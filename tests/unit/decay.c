/* GiveBack: passes at most once an interval, only of what is due; everything when asked; before the heap grows beyond its level,
 * what lies idle. */
#include "unit/unit.h"

#include <string.h>

#include "count/stats.h"
#include "tcache/tcache.h"
#include "support/knobs.h"
#include "span/page_heap.h"
#include "big/big.h"
#include "slab/slab_heap.h"
#include "decay/decay.h"

static void leave_free_memory(void)
{
    bool zeroed;
    uintptr_t run = hk_span_alloc(4, HK_USE_SPARSE);
    void *block = hk_big_alloc(2 * HK_MIB, 16, &zeroed);
    assert_true(run != 0 && block != NULL);
    *(char *)run = *(char *)block = 1;
    hk_span_free(run, 4);
    hk_big_free(block);
}

/* As a thread that was never here before. */
static void tick(void)
{
    struct hk_ticker ticker = {0};
    hk_decay_read_clock(&ticker);
    hk_decay_tick(&ticker);
}

static size_t still_warm(void)
{
    struct hk_page_heap_totals runs;
    struct hk_big_totals bigs;
    hk_page_heap_total(&runs);
    hk_big_total(&bigs);
    return runs.free_dirty + bigs.cached;
}

UNIT_TEST(all)
{
    unit_start();
    leave_free_memory();
    size_t footprint = still_warm();
    assert_true(footprint >= 4 * HK_SLICE + 2 * HK_MIB);
    assert_int_equal(hk_decay_all(0), footprint);
    assert_int_equal(still_warm(), 0);
    assert_int_equal(hk_decay_all(0), 0);
}

/* What was freed last stays, as warm as it was, and a pass takes it when the delay is over. */
UNIT_TEST(all_but_what_is_to_be_kept)
{
    enum { SUPERS = 4 };
    uintptr_t chunks[SUPERS];
    bool zeroed;
    unit_start();
    hk_decay_all(0);
    char *block = hk_big_alloc(3 * HK_MIB, 16, &zeroed);
    for (unsigned i = 0; i < SUPERS; i++)
        memset((void *)(chunks[i] = hk_span_alloc(HK_CHUNK_SLICES, HK_USE_SPARSE)), 7, HK_CHUNK);
    for (unsigned i = 0; i < SUPERS; i++) {
        fake_os_pass_ms(10);
        hk_span_free(chunks[i], HK_CHUNK_SLICES);
    }
    hk_big_free(block);
    size_t idle = still_warm();
    assert_int_equal(idle, SUPERS * HK_CHUNK + 3 * HK_MIB);
    assert_int_equal(hk_decay_all(idle), 0);
    assert_int_equal(still_warm(), idle);
    assert_int_equal(hk_decay_all(idle - 1), HK_CHUNK);
    assert_int_equal(hk_decay_all(HK_CHUNK + 3 * HK_MIB), 2 * HK_CHUNK);
    assert_int_equal(still_warm(), HK_CHUNK + 3 * HK_MIB);
    assert_int_equal(*(char *)chunks[SUPERS - 1], 7);
    tick();
    assert_int_equal(still_warm(), HK_CHUNK + 3 * HK_MIB);
    assert_int_equal(hk_decay_all(3 * HK_MIB), HK_CHUNK);
    assert_int_equal(hk_decay_all(1), 3 * HK_MIB);
    assert_int_equal(still_warm(), 0);
}

UNIT_TEST(when_due)
{
    unit_start();
    leave_free_memory();
    size_t footprint = still_warm();
    tick();
    assert_int_equal(still_warm(), footprint);
    for (int i = 0; i < 30 && still_warm() > 0; i++) {
        fake_os_pass_ms(100);
        tick();
        if (i < 4)
            assert_int_equal(still_warm(), footprint);
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
    struct hk_ticker ticker = {0};
    assert_false(hk_decay_read_clock(&ticker));
    leave_free_memory();
    size_t footprint = still_warm();
    fake_os_pass_ms(2000);
    assert_false(hk_decay_read_clock(&ticker));
    fake_os_pass_ms(2001);
    assert_true(hk_decay_read_clock(&ticker));
    assert_int_equal(still_warm(), footprint);
    assert_true(hk_decay_tick(&ticker));
    assert_int_equal(still_warm(), 0);
    assert_false(hk_decay_read_clock(&ticker));
}

/* The time that went by pays for the sweep. */
UNIT_TEST(share_of_time)
{
    struct hk_ticker ticker = {0};
    unit_start();
    hk_decay_read_clock(&ticker);
    assert_int_equal(hk_decay_share(&ticker).work, 0);
    fake_os_pass_ms(10);
    hk_decay_read_clock(&ticker);
    int64_t ten = hk_decay_share(&ticker).work;
    fake_os_pass_ms(100);
    hk_decay_read_clock(&ticker);
    assert_true(ten > 0);
    assert_int_equal(hk_decay_share(&ticker).work, 10 * ten);
    assert_int_equal(hk_decay_share(&ticker).touched + 100, hk_decay_share(&ticker).now);
}

/* What a thread is told at its tick, after so long. */
static bool growth_seen(struct hk_ticker *ticker, uint64_t ms)
{
    fake_os_pass_ms(ms);
    hk_decay_read_clock(ticker);
    return hk_decay_growth(ticker);
}

static size_t footprint(void) { return hk_page_heap_dirty() + hk_big_mapped(); }

enum { MOST_SUPERS = 128, LEVEL_SUPERS = 32 }; /* 64 MiB: the least level there is */
static uintptr_t chunks[MOST_SUPERS];
static unsigned held;

static void hold(unsigned count)
{
    while (held < count)
        assert_true((chunks[held++] = hk_span_alloc(HK_CHUNK_SLICES, HK_USE_SPARSE)) != 0);
}

static void hold_no_more_than(unsigned count)
{
    while (held > count)
        hk_span_free(chunks[--held], HK_CHUNK_SLICES);
}

UNIT_TEST(below_the_level)
{
    struct hk_ticker ticker = {0};
    unit_start();
    hold(LEVEL_SUPERS - 2);
    hold_no_more_than(10);
    size_t before = footprint();
    assert_false(growth_seen(&ticker, 1000));
    assert_int_equal(footprint(), before);
    assert_int_equal(fake_os_calls(FAKE_PURGE), 0);
}

static void map_mibs(unsigned count)
{
    bool zeroed;
    for (; count > 0; count--)
        assert_non_null(hk_big_alloc(HK_MIB, 16, &zeroed));
}

/* Above the watermark idle memory goes, twice what is too much and 4 MiB at least: slices first, then big blocks. */
UNIT_TEST(paid_by_what_is_idle)
{
    struct hk_ticker ticker = {0};
    bool zeroed;
    unit_start();
    hold(24);
    hold_no_more_than(20);
    void *one = hk_big_alloc(6 * HK_MIB, 16, &zeroed), *other = hk_big_alloc(6 * HK_MIB, 16, &zeroed);
    hk_big_free(one);
    hk_big_free(other);
    hk_big_purge(hk_os.clock_ms(), 1000); /* sees them */
    assert_false(growth_seen(&ticker, 100));
    assert_int_equal(still_warm(), 4 * HK_CHUNK + 12 * HK_MIB);
    map_mibs(5);
    size_t before = footprint();
    assert_in_range(before, 65 * HK_MIB, 66 * HK_MIB);
    assert_false(growth_seen(&ticker, 0));
    assert_int_equal(before - footprint(), 2 * HK_CHUNK);
    assert_int_equal(still_warm(), 2 * HK_CHUNK + 12 * HK_MIB);
    map_mibs(9);
    hold_no_more_than(19); /* free for no time: it stays */
    assert_false(growth_seen(&ticker, 0));
    assert_int_equal(still_warm(), HK_CHUNK);
    before = footprint();
    assert_true(before < 64 * HK_MIB);
    assert_false(growth_seen(&ticker, 1000));
    assert_int_equal(footprint(), before);
}

/* With nothing to give back the watermark rises, by more than is warm, and each thread is told so once. */
UNIT_TEST(level_rises)
{
    struct hk_ticker one = {0}, other = {0};
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
    struct hk_ticker ticker = {0};
    unit_start();
    hold(2 * LEVEL_SUPERS);
    assert_true(growth_seen(&ticker, 0));
    hold_no_more_than(10);
    hk_decay_all(0);
    fake_os_pass_ms(1000);
    tick();
    hold(LEVEL_SUPERS + 4);
    assert_true(growth_seen(&ticker, 0));
    hold_no_more_than(LEVEL_SUPERS);
    hk_decay_all(0);
    fake_os_pass_ms(1000);
    tick(); /* half of the watermark is in use: it stays */
    hold(LEVEL_SUPERS + 4);
    assert_false(growth_seen(&ticker, 0));
}

/* A sweep over slabs found so much; then the program wants it again. */
static void sweep_and_touch_again(struct hk_ticker *ticker, size_t bytes)
{
    struct hk_slab swept = {.d = {.bytes = bytes}};
    HK_COUNT(purged_in_slabs, bytes);
    hk_slab_note_clean(&swept, UINT16_MAX);
    hk_decay_swept(ticker);
    hk_slab_note_clean(&swept, 0);
}

/* The level follows a sweep that found much, unless what the sweep before it found came back. */
UNIT_TEST(level_follows_sweeps)
{
    struct hk_ticker ticker = {0};
    unit_start();
    hold(2 * LEVEL_SUPERS);
    assert_true(growth_seen(&ticker, 0));
    sweep_and_touch_again(&ticker, 16 * HK_MIB);
    assert_true(growth_seen(&ticker, 1000));
    sweep_and_touch_again(&ticker, 16 * HK_MIB);
    assert_false(growth_seen(&ticker, 1000));
}

/* So much is mapped that no round maps more; the watermark is what it was in the beginning. */
static void start_with_room(void)
{
    unit_start();
    hold(2 * LEVEL_SUPERS);
    hold_no_more_than(0);
    hk_decay_all(0);
    assert_true(footprint() < HK_CHUNK);
}

enum { ROUNDS = 100, IDLE_SUPERS = 10, ROUND_MS = 20 };

/* The heap grows beyond the watermark by what was given back a moment ago: rounds until it is not given back once more. */
static unsigned rounds_paid(struct hk_ticker *ticker)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        hold(LEVEL_SUPERS + 8);
        hold_no_more_than(LEVEL_SUPERS + 8 - IDLE_SUPERS);
        if (growth_seen(ticker, ROUND_MS))
            return round;
    }
    return ROUNDS;
}

/* 256 KiB a ms, and what was not used of a quarter of a second. */
UNIT_TEST(paid_within_the_time)
{
    struct hk_ticker ticker = {0};
    start_with_room();
    unsigned ms_a_round = IDLE_SUPERS * HK_CHUNK / (256 * HK_KIB) - ROUND_MS;
    assert_in_range(rounds_paid(&ticker), 250 / ms_a_round, 250 / ms_a_round + 2);
    assert_true(still_warm() >= IDLE_SUPERS * HK_CHUNK);
}

/* Memory that is mapped for the first time cannot have been given back: it is paid for at any time. */
UNIT_TEST(paid_for_what_is_new)
{
    struct hk_ticker ticker = {0};
    bool zeroed;
    start_with_room();
    assert_in_range(rounds_paid(&ticker), 1, ROUNDS - 1);
    assert_non_null(hk_big_alloc(100 * HK_MIB, 16, &zeroed));
    size_t before = footprint();
    growth_seen(&ticker, 0);
    assert_int_equal(before - footprint(), IDLE_SUPERS * HK_CHUNK);
}

/* Once time has passed, there is a share of it again. */
UNIT_TEST(paid_after_a_while)
{
    struct hk_ticker ticker = {0};
    start_with_room();
    assert_in_range(rounds_paid(&ticker), 1, ROUNDS - 1);
    hold(LEVEL_SUPERS + 14);
    hold_no_more_than(LEVEL_SUPERS + 14 - IDLE_SUPERS);
    size_t before = footprint();
    assert_false(growth_seen(&ticker, 1000));
    assert_true(footprint() < before);
}

enum { MANY = 1000, BLOCKS = 16, RANGES = BLOCKS / 2 };

/* Slabs of which every other page is free. */
static void leave_ranges(void *unused)
{
    (void)unused;
    struct hk_owner *owner = &hk_tcache_self()->owner;
    static void *blocks[MANY * BLOCKS + 1];
    for (unsigned got = 0; got < MANY * BLOCKS;)
        got += hk_slab_heap_alloc(owner, CLASS_OF_4096, blocks + got + 1, 1);
    for (unsigned i = 1; i < MANY * BLOCKS; i += 2)
        assert_int_equal(hk_slab_heap_free(owner, &blocks[i], 1), 1);
}

static void leave_orphans(void *unused)
{
    hk_tcache_begin();
    leave_ranges(unused);
}

/* That no lock is held over two calls, fake_os looks at; here are the calls. The background thread's lock lets others be trimmed. */
UNIT_TEST(one_call_a_hold)
{
    const size_t expected = (size_t)MANY * RANGES;
    unit_start();
    SET_KNOB(huge_pages_from, 0);
    hk_slab_lists_share();
    leave_ranges(NULL);
    fake_os_refuse(NULL);
    assert_int_equal(hk_decay_all(0), expected * HK_PAGE);
    assert_in_range(fake_os_calls(FAKE_PURGE), expected, expected + 10);
    unit_in_thread(leave_orphans, NULL);
    fake_os_refuse(NULL);
    assert_in_range(hk_decay_all(0), expected * HK_PAGE, (expected + 1000) * HK_PAGE);
    assert_in_range(fake_os_calls(FAKE_PURGE), 2 * expected, 2 * expected + 100);
}

UNIT_TEST(one_call_a_hold_in_background)
{
    const size_t expected = (size_t)MANY * RANGES;
    unit_start();
    SET_KNOB(huge_pages_from, 0);
    hk_slab_lists_share();
    unit_in_thread(leave_orphans, NULL);
    leave_ranges(NULL);
    fake_os_refuse(NULL);
    for (int i = 0; i < 20 && hk_decay_in_background().waits; i++)
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
