/* Tests the times of purges. Excess is purged at any age. Each interval has at most one epoch. An epoch purges only memory that was free for the delay. A trim of the program
 * purges all free memory. Idle memory is reclaimed before the heap grows beyond its watermark. */
#include "unit/unit.h"

#include <string.h>

#include "count/stats.h"
#include "tcache/tcache.h"
#include "support/knobs.h"
#include "span/chunks.h"
#include "span/page_heap.h"
#include "large/large.h"
#include "slab/slab_heap.h"
#include "decay/decay.h"

static void leave_free_memory(void)
{
    bool zeroed;
    uintptr_t span = hk_span_alloc(4, HK_USE_SPARSE, &(bool){false});
    void *block = hk_large_alloc(2 * HK_MIB, 16, &zeroed);
    assert_true(span != 0 && block != NULL);
    *(char *)span = *(char *)block = 1;
    hk_span_free(span, 4);
    hk_large_free(block);
}

/* Simulates the first tick of a new thread. */
static void tick(void)
{
    struct hk_ticker ticker = {0};
    hk_decay_read_clock(&ticker);
    hk_decay_tick(&ticker);
}

static size_t idle_bytes(void) { return hk_page_heap_total().free_dirty + hk_large_total().cached; }

static size_t footprint(void) { return hk_page_heap_dirty() + hk_large_mapped(); }

UNIT_TEST(all)
{
    unit_start();
    leave_free_memory();
    size_t footprint = idle_bytes();
    assert_true(footprint >= 4 * HK_SLICE + 2 * HK_MIB);
    assert_int_equal(hk_decay_all(0), footprint);
    assert_int_equal(idle_bytes(), 0);
    assert_int_equal(hk_decay_all(0), 0);
}

/* The argument of hk_decay_all() is the number of bytes to keep. The memory that was freed last stays resident, and an epoch purges it after the
 * delay. */
UNIT_TEST(all_but_what_is_to_be_kept)
{
    enum { CHUNKS = 4 };
    uintptr_t chunks[CHUNKS];
    bool zeroed;
    unit_start();
    hk_decay_all(0);
    char *block = hk_large_alloc(3 * HK_MIB, 16, &zeroed);
    for (unsigned i = 0; i < CHUNKS; i++)
        memset((void *)(chunks[i] = hk_span_alloc(HK_CHUNK_SLICES, HK_USE_SPARSE, &(bool){false})), 7, HK_CHUNK);
    for (unsigned i = 0; i < CHUNKS; i++) {
        fake_os_pass_ms(10);
        hk_span_free(chunks[i], HK_CHUNK_SLICES);
    }
    hk_large_free(block);
    size_t idle = idle_bytes();
    assert_int_equal(idle, CHUNKS * HK_CHUNK + 3 * HK_MIB);
    assert_int_equal(hk_decay_all(idle), 0);
    assert_int_equal(idle_bytes(), idle);
    assert_int_equal(hk_decay_all(idle - 1), HK_CHUNK);
    assert_int_equal(hk_decay_all(HK_CHUNK + 3 * HK_MIB), 2 * HK_CHUNK);
    assert_int_equal(idle_bytes(), HK_CHUNK + 3 * HK_MIB);
    assert_int_equal(*(char *)chunks[CHUNKS - 1], 7);
    tick();
    assert_int_equal(idle_bytes(), HK_CHUNK + 3 * HK_MIB);
    assert_int_equal(hk_decay_all(3 * HK_MIB), HK_CHUNK);
    assert_int_equal(hk_decay_all(1), 3 * HK_MIB);
    assert_int_equal(idle_bytes(), 0);
}

UNIT_TEST(when_due)
{
    unit_start();
    leave_free_memory();
    size_t footprint = idle_bytes();
    tick();
    assert_int_equal(idle_bytes(), footprint);
    for (int i = 0; i < 30 && idle_bytes() > 0; i++) {
        fake_os_pass_ms(100);
        tick();
        if (i < 4)
            assert_int_equal(idle_bytes(), footprint);
    }
    assert_int_equal(idle_bytes(), 0);
}

/* HAKMEM_FREE_POLICY=keep: idle memory of any age stays, until the ceiling or malloc_trim demands its purge. */
UNIT_TEST(keeps_what_nothing_demands)
{
    hk_options.free_policy = HK_FREE_KEEP;
    unit_start();
    leave_free_memory();
    size_t idle = idle_bytes();
    for (int i = 0; i < 100; i++) {
        fake_os_pass_ms(100);
        tick();
        struct hk_round round = hk_decay_in_background();
        assert_true(round.threads && !round.waits); /* otherwise the background thread would end */
    }
    assert_int_equal(idle_bytes(), idle);
    assert_false(hk_decay_left_is_due(64 * HK_MIB));
    SET_KNOB(ceiling, hk_decay_footprint() - idle);
    struct hk_ticker ticker = hk_decay_first_ticker();
    hk_decay_read_clock(&ticker);
    hk_decay_growth(&ticker, footprint());
    assert_int_equal(idle_bytes(), 0);
    SET_KNOB(ceiling, (uint64_t)1 << 40);
    leave_free_memory();
    assert_int_equal(hk_decay_all(0), idle);
}

/* Each tick reads the clock. At most one tick in an interval makes other system calls. */
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
    assert_int_equal(idle_bytes(), 0);
}

/* If no thread ran for longer than the delay, all free memory was idle for that time, so the next tick purges it. */
UNIT_TEST(rested)
{
    SET_KNOB(purge_delay, 500);
    unit_start();
    fake_os_pass_ms(10000);
    tick();
    struct hk_ticker ticker = {0};
    assert_false(hk_decay_read_clock(&ticker));
    leave_free_memory();
    size_t footprint = idle_bytes();
    fake_os_pass_ms(2000);
    assert_false(hk_decay_read_clock(&ticker));
    fake_os_pass_ms(2001);
    assert_true(hk_decay_read_clock(&ticker));
    assert_int_equal(idle_bytes(), footprint);
    assert_true(hk_decay_tick(&ticker));
    assert_int_equal(idle_bytes(), 0);
    assert_false(hk_decay_read_clock(&ticker));
}

/* The work budget of a sweep is proportional to the time since the last tick. */
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

/* Advances the clock by `ms`, and returns what hk_decay_growth() answers in this thread's next tick. */
static bool growth_seen(struct hk_ticker *ticker, uint64_t ms)
{
    fake_os_pass_ms(ms);
    hk_decay_read_clock(ticker);
    return hk_decay_growth(ticker, footprint());
}

enum { MOST_CHUNKS = 128, WATERMARK_CHUNKS = 32 }; /* 32 chunks have 64 MiB, the lowest watermark */
static uintptr_t chunks[MOST_CHUNKS];
static unsigned held;

static void hold(unsigned count)
{
    while (held < count)
        assert_true((chunks[held++] = hk_span_alloc(HK_CHUNK_SLICES, HK_USE_SPARSE, &(bool){false})) != 0);
}

static void hold_no_more_than(unsigned count)
{
    while (held > count)
        hk_span_free(chunks[--held], HK_CHUNK_SLICES);
}

UNIT_TEST(below_the_watermark)
{
    struct hk_ticker ticker = {0};
    unit_start();
    hold(WATERMARK_CHUNKS - 2);
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
        assert_non_null(hk_large_alloc(HK_MIB, 16, &zeroed));
}

/* Above the watermark, the heap purges twice the excess, and at least 4 MiB of idle memory. Slices are purged before large blocks. */
UNIT_TEST(reclaims_idle_memory)
{
    struct hk_ticker ticker = {0};
    bool zeroed;
    unit_start();
    SET_KNOB(huge_blocks_from, 0);
    hold(24);
    hold_no_more_than(20);
    hk_store(hk_large_allowed, HK_LARGE_NO_EXCESS);
    void *one = hk_large_alloc(6 * HK_MIB, 16, &zeroed), *other = hk_large_alloc(6 * HK_MIB, 16, &zeroed);
    hk_large_free(one);
    hk_large_free(other);
    hk_large_purge(hk_os.clock_ms(), 1000, SIZE_MAX); /* The call purges nothing, but it marks both blocks as idle. */
    assert_false(growth_seen(&ticker, 100));
    assert_int_equal(idle_bytes(), 4 * HK_CHUNK + 12 * HK_MIB);
    map_mibs(5);
    size_t before = footprint();
    assert_in_range(before, 65 * HK_MIB, 66 * HK_MIB);
    assert_false(growth_seen(&ticker, 0));
    assert_int_equal(before - footprint(), 2 * HK_CHUNK);
    assert_int_equal(idle_bytes(), 2 * HK_CHUNK + 12 * HK_MIB);
    map_mibs(9);
    hold_no_more_than(19); /* The slices that this call frees were idle for 0 ms, so the growth does not purge them. */
    assert_false(growth_seen(&ticker, 0));
    assert_int_equal(idle_bytes(), HK_CHUNK);
    before = footprint();
    assert_true(before < 64 * HK_MIB);
    assert_false(growth_seen(&ticker, 1000));
    assert_int_equal(footprint(), before);
}

/* If there is no idle memory, the watermark rises above the footprint. hk_decay_growth() then returns true once for each thread. */
UNIT_TEST(watermark_rises)
{
    struct hk_ticker one = {0}, other = {0};
    unit_start();
    hold(WATERMARK_CHUNKS + 8);
    assert_true(growth_seen(&one, 0));
    assert_false(growth_seen(&one, 0));
    assert_true(growth_seen(&other, 0));
    assert_false(growth_seen(&other, 1000));
    hold(WATERMARK_CHUNKS + 9); /* Even with this chunk, the footprint is below the raised watermark. */
    assert_false(growth_seen(&one, 0));
    hold(WATERMARK_CHUNKS + 12);
    assert_true(growth_seen(&other, 0));
    assert_true(growth_seen(&one, 0));
    assert_false(growth_seen(&other, 0));
    assert_false(growth_seen(&one, 0));
    assert_int_equal(fake_os_calls(FAKE_PURGE), 0);
}

UNIT_TEST(watermark_falls)
{
    struct hk_ticker ticker = {0};
    unit_start();
    hold(2 * WATERMARK_CHUNKS);
    assert_true(growth_seen(&ticker, 0));
    hold_no_more_than(10);
    hk_decay_all(0);
    fake_os_pass_ms(1000);
    tick();
    hold(WATERMARK_CHUNKS + 4);
    assert_true(growth_seen(&ticker, 0));
    hold_no_more_than(WATERMARK_CHUNKS);
    hk_decay_all(0);
    fake_os_pass_ms(1000);
    tick(); /* The tick does not lower the watermark because half of it is in use. */
    hold(WATERMARK_CHUNKS + 4);
    assert_false(growth_seen(&ticker, 0));
}

/* Simulates a sweep over slabs that purges `bytes` bytes, and a program that touches these bytes again. */
static void sweep_and_touch_again(struct hk_ticker *ticker, size_t bytes)
{
    struct hk_slab swept = {.d = {.bytes = bytes}};
    HK_COUNT(purged_in_slabs, bytes);
    hk_slab_note_clean(&swept, UINT16_MAX);
    hk_decay_swept(ticker);
    hk_slab_note_clean(&swept, 0);
}

/* The watermark falls after a sweep that purged much. It does not fall if the memory that the previous sweep purged is resident again. */
UNIT_TEST(watermark_follows_sweeps)
{
    struct hk_ticker ticker = {0};
    unit_start();
    hold(2 * WATERMARK_CHUNKS);
    assert_true(growth_seen(&ticker, 0));
    sweep_and_touch_again(&ticker, 16 * HK_MIB);
    assert_true(growth_seen(&ticker, 1000));
    sweep_and_touch_again(&ticker, 16 * HK_MIB);
    assert_false(growth_seen(&ticker, 1000));
}

/* Maps so much memory that the rounds of rounds_reclaimed() map no more, and resets the watermark. */
static void start_with_room(void)
{
    unit_start();
    hold(2 * WATERMARK_CHUNKS);
    hold_no_more_than(0);
    hk_decay_all(0);
    assert_true(footprint() < HK_CHUNK);
}

enum { ROUNDS = 100, IDLE_CHUNKS = 10, ROUND_MS = 20 };

/* In each round the heap grows beyond the watermark with memory that was reclaimed just before. Returns the number of rounds after which the heap
 * stops reclaiming. */
static unsigned rounds_reclaimed(struct hk_ticker *ticker)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        hold(WATERMARK_CHUNKS + 8);
        hold_no_more_than(WATERMARK_CHUNKS + 8 - IDLE_CHUNKS);
        if (growth_seen(ticker, ROUND_MS))
            return round;
    }
    return ROUNDS;
}

/* Growth may reclaim 256 KiB per ms. It may also use the share that was not used in the last quarter of a second. */
UNIT_TEST(reclaims_within_its_time)
{
    struct hk_ticker ticker = {0};
    start_with_room();
    unsigned ms_a_round = IDLE_CHUNKS * HK_CHUNK / (256 * HK_KIB) - ROUND_MS;
    assert_in_range(rounds_reclaimed(&ticker), 250 / ms_a_round, 250 / ms_a_round + 2);
    assert_true(idle_bytes() >= IDLE_CHUNKS * HK_CHUNK);
}

/* Newly mapped memory was not purged before, so growth by new memory may always reclaim. */
UNIT_TEST(reclaims_for_new_memory)
{
    struct hk_ticker ticker = {0};
    bool zeroed;
    start_with_room();
    assert_in_range(rounds_reclaimed(&ticker), 1, ROUNDS - 1);
    assert_non_null(hk_large_alloc(100 * HK_MIB, 16, &zeroed));
    size_t before = footprint();
    growth_seen(&ticker, 0);
    assert_int_equal(before - footprint(), IDLE_CHUNKS * HK_CHUNK);
}

/* After some time without reclaiming, the heap may reclaim again. */
UNIT_TEST(reclaims_after_a_while)
{
    struct hk_ticker ticker = {0};
    start_with_room();
    assert_in_range(rounds_reclaimed(&ticker), 1, ROUNDS - 1);
    hold(WATERMARK_CHUNKS + 14);
    hold_no_more_than(WATERMARK_CHUNKS + 14 - IDLE_CHUNKS);
    size_t before = footprint();
    assert_false(growth_seen(&ticker, 1000));
    assert_true(footprint() < before);
}

enum { MANY = 1000, BLOCKS = 16, RANGES = BLOCKS / 2 };

/* Fills MANY slabs and frees every second block, so that every other page of them is free. */
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

static void leave_abandoned(void *unused)
{
    hk_tcache_begin();
    leave_ranges(unused);
}

/* The fake OS checks that no lock is held over two purges. The following tests make many purges, so that this check sees many. */
UNIT_TEST(one_call_a_hold)
{
    const size_t expected = (size_t)MANY * RANGES;
    unit_start();
    SET_KNOB(huge_pages_from, 0);
    hk_store(hk_page_heap.xprefault_refused, true); /* The window of a prefault would be purged too. */
    hk_slab_lists_shared = true;
    leave_ranges(NULL);
    fake_os_refuse(NULL);
    assert_int_equal(hk_decay_all(0), expected * HK_PAGE);
    assert_in_range(fake_os_calls(FAKE_PURGE), expected, expected + 10);
    unit_in_thread(leave_abandoned, NULL);
    fake_os_refuse(NULL);
    assert_in_range(hk_decay_all(0), expected * HK_PAGE, (expected + 1000) * HK_PAGE);
    assert_in_range(fake_os_calls(FAKE_PURGE), 2 * expected, 2 * expected + 100);
}

UNIT_TEST(one_call_a_hold_in_background)
{
    const size_t expected = (size_t)MANY * RANGES;
    unit_start();
    SET_KNOB(huge_pages_from, 0);
    hk_slab_lists_shared = true;
    unit_in_thread(leave_abandoned, NULL);
    leave_ranges(NULL);
    fake_os_refuse(NULL);
    for (int i = 0; i < 20 && hk_decay_in_background().waits; i++)
        fake_os_pass_ms(1000);
    assert_in_range(fake_os_calls(FAKE_PURGE), 2 * expected - RANGES, 2 * expected + 100);
}

/* Returns the bytes that purges of excess leave if nothing was reused: 8 MiB and a quarter of the used memory. */
static size_t allowed(void) { return 8 * HK_MIB + (footprint() - idle_bytes()) / 4; }

static size_t purge_excess(uint64_t ms)
{
    struct hk_ticker ticker = {.now = hk_os.clock_ms()};
    size_t before = idle_bytes();
    fake_os_pass_ms(ms);
    hk_decay_read_clock(&ticker);
    hk_decay_purge_excess(&ticker, footprint(), 0);
    return before - idle_bytes();
}

/* Excess is purged even if it was freed just now. Slices are purged at a tick, and the oldest large blocks when a block is freed. */
UNIT_TEST(purges_excess)
{
    bool zeroed;
    unit_start();
    SET_KNOB(huge_blocks_from, 0);
    fake_os_pass_ms(10000);
    hold(24);
    void *blocks[] = {hk_large_alloc(2 * HK_MIB, 16, &zeroed), hk_large_alloc(9 * HK_MIB, 16, &zeroed)};
    hold_no_more_than(20);
    assert_int_equal(purge_excess(1), 0); /* 18 MiB may be idle, and a quarter of the large blocks */
    hk_large_free(blocks[0]);
    assert_int_equal(idle_bytes(), 10 * HK_MIB);
    hk_large_free(blocks[1]);
    assert_int_equal(idle_bytes(), 8 * HK_MIB + 9 * HK_MIB);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_purged_excess]), 2 * HK_MIB);
    hold_no_more_than(4);
    assert_in_range(purge_excess(0), 39 * HK_MIB, 41 * HK_MIB);
    assert_true(idle_bytes() < allowed() + HK_MIB);
    assert_int_equal(purge_excess(1000), 0);
}

/* Memory that the program soon uses again is purged as excess only once. */
UNIT_TEST(keeps_memory_used_again)
{
    bool zeroed;
    unit_start();
    SET_KNOB(huge_blocks_from, 0);
    fake_os_pass_ms(10000);
    struct hk_ticker ticker = {0};
    for (unsigned i = 0; i < 100; i++) {
        void *block = hk_large_alloc(50 * HK_MIB, 16, &zeroed);
        fake_os_pass_ms(10);
        hk_decay_read_clock(&ticker);
        hk_decay_tick(&ticker);
        hk_decay_purge_excess(&ticker, footprint(), 0);
        hk_large_free(block);
    }
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_purged_excess]), 50 * HK_MIB);
    fake_os_pass_ms(400);
    tick();
    fake_os_pass_ms(200);
    tick();
    fake_os_pass_ms(1);
    hk_decay_read_clock(&ticker);
    hk_decay_purge_excess(&ticker, footprint(), 0);
    assert_int_equal(idle_bytes(), 0);
}

/* A program that shrinks for the first time returns all excess at once. Then page faults after purges of excess may take 1 % of the time. So 64 KiB
 * are purged for each ms, and 125 MiB after a pause. */
UNIT_TEST(excess_has_a_rate)
{
    unit_start();
    fake_os_pass_ms(10000);
    hold(MOST_CHUNKS);
    purge_excess(0);
    hold_no_more_than(0);
    assert_in_range(purge_excess(0), (MOST_CHUNKS - 6) * HK_CHUNK, (MOST_CHUNKS - 4) * HK_CHUNK);
    for (unsigned i = 0; i < 2; i++) {
        fake_os_pass_ms(10000);
        hk_reuse_saw(hk_os.clock_ms());
        hold(MOST_CHUNKS);
        hold_no_more_than(0);
        if (i == 0) { /* uses up the rest of the first return */
            assert_in_range(purge_excess(0), 125 * HK_MIB, 137 * HK_MIB);
            assert_int_equal(purge_excess(1), 0);
        }
    }
    size_t at_once = purge_excess(0);
    assert_in_range(at_once, 125 * HK_MIB, 127 * HK_MIB);
    assert_int_equal(purge_excess(63), 0);
    assert_in_range(purge_excess(100), 4 * HK_MIB, 8 * HK_MIB);
    assert_in_range(purge_excess(1000), 60 * HK_MIB, 64 * HK_MIB);
    while (purge_excess(1000) > 0)
        assert_true(idle_bytes() + HK_MIB >= allowed());
    assert_true(idle_bytes() < allowed() + HK_MIB);
}

/* After a purge of excess in vain, the next one waits until an eighth more is idle, or for HK_TICK_MS. */
UNIT_TEST(excess_purged_in_vain)
{
    unit_start();
    fake_os_pass_ms(10000);
    hold(40);
    hold_no_more_than(20);
    fake_os_refuse(fake_refuse_purge);
    assert_int_equal(purge_excess(0), 0);
    uint64_t tries = fake_os_calls(FAKE_PURGE);
    assert_int_not_equal(tries, 0);
    hold_no_more_than(19);
    purge_excess(1);
    assert_int_equal(fake_os_calls(FAKE_PURGE), tries);
    hold_no_more_than(16);
    purge_excess(0);
    assert_int_equal(fake_os_calls(FAKE_PURGE), tries + 1);
    purge_excess(HK_TICK_MS);
    assert_int_equal(fake_os_calls(FAKE_PURGE), tries + 2);
}

/* Returns HK_EXCESS_SHRUNK once if more bytes were purged than the heap still has. The thread then empties its caches. */
UNIT_TEST(has_shrunk)
{
    struct hk_ticker ticker = {0};
    unit_start();
    fake_os_pass_ms(10000);
    hk_decay_read_clock(&ticker);
    hold(40);
    hold_no_more_than(30);
    assert_int_equal(hk_decay_purge_excess(&ticker, footprint(), 0), 0);
    hold_no_more_than(4);
    assert_int_equal(hk_decay_purge_excess(&ticker, footprint(), 0), HK_EXCESS_SHRUNK);
    assert_int_equal(hk_decay_purge_excess(&ticker, footprint(), 0), 0);
}

/* The free blocks in the caller's slabs are excess if they have more than half as many bytes as the used memory, and more than 8 MiB. */
UNIT_TEST(excess_in_slabs)
{
    struct hk_ticker ticker = {0};
    unit_start();
    fake_os_pass_ms(10000);
    hk_decay_read_clock(&ticker);
    hold(40);
    assert_int_equal(hk_decay_purge_excess(&ticker, footprint(), 26 * HK_MIB), 0);
    assert_int_equal(hk_decay_purge_excess(&ticker, footprint(), 28 * HK_MIB), HK_EXCESS_IN_SLABS);
    hold_no_more_than(4);
    assert_int_equal(hk_decay_purge_excess(&ticker, footprint(), 7 * HK_MIB) & HK_EXCESS_IN_SLABS, 0);
}

static void excess_stays(void)
{
    unit_start();
    fake_os_pass_ms(10000);
    hold(32);
    hold_no_more_than(0);
    assert_int_equal(purge_excess(0), 0);
    bool zeroed;
    hk_large_free(hk_large_alloc(50 * HK_MIB, 16, &zeroed));
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_purged_excess]), 0);
}

UNIT_TEST(excess_stays_if_kept)
{
    hk_options.free_policy = HK_FREE_KEEP;
    excess_stays();
}

UNIT_TEST(excess_stays_in_batches)
{
    hk_options.free_policy = HK_FREE_BATCH;
    excess_stays();
}

UNIT_TEST(excess_waits_for_a_long_delay)
{
    SET_KNOB(purge_delay, 1001);
    excess_stays();
}

/* If the heap is larger than the ceiling, idle memory is purged at once. If the heap is still too large then, threads purge their slabs, at most
 * once in 50 ms. */
UNIT_TEST(ceiling)
{
    bool zeroed;
    unit_start();
    struct hk_ticker ticker = hk_decay_first_ticker();
    SET_KNOB(ceiling, 8 * HK_MIB);
    char *live = hk_large_alloc(16 * HK_MIB, 16, &zeroed);
    fake_os_pass_ms(100);
    hk_decay_read_clock(&ticker);
    assert_true(hk_decay_growth(&ticker, footprint()));
    assert_false(hk_decay_growth(&ticker, footprint()));
    fake_os_pass_ms(49);
    hk_decay_read_clock(&ticker);
    assert_false(hk_decay_growth(&ticker, footprint()));
    fake_os_pass_ms(1);
    hk_decay_read_clock(&ticker);
    assert_true(hk_decay_growth(&ticker, footprint()));
    leave_free_memory();
    hk_decay_growth(&ticker, footprint());
    assert_int_equal(idle_bytes(), 0);
    hk_large_free(live);
}

/* All threads share one epoch. Memory that becomes due shortly after an epoch waits until the next one. */
UNIT_TEST(one_epoch_for_all)
{
    SET_KNOB(purge_delay, 1000);
    unit_start();
    fake_os_pass_ms(10000);
    tick();
    uintptr_t span = hk_span_alloc(4, HK_USE_SPARSE, &(bool){false});
    *(char *)span = 1;
    hk_span_free(span, 4);
    fake_os_pass_ms(1000);
    tick(); /* The delay begins at this epoch because it is the first after the span was freed. */
    fake_os_pass_ms(999);
    tick();
    fake_os_pass_ms(1);
    tick();
    assert_true(idle_bytes() > 0);
    fake_os_pass_ms(149);
    tick();
    assert_int_equal(idle_bytes(), 0);
}

static void leave_much(void)
{
    for (int i = 0; i < 4; i++) {
        uintptr_t span = hk_span_alloc(HK_CHUNK_SLICES, HK_USE_SPARSE, &(bool){false});
        memset((void *)span, 1, HK_CHUNK);
        hk_span_free(span, HK_CHUNK_SLICES);
        leave_free_memory();
    }
}

/* The free memory of ended threads is purged at once if there is enough of it. The next such purge waits for a time in proportion to the page
 * faults that the first one may cause. */
UNIT_TEST(left_by_threads)
{
    unit_start();
    hk_decay_all(0);
    assert_false(hk_decay_left_is_due(0));
    assert_true(hk_decay_left_is_due(3 * HK_MIB)); /* The 3 MiB of the thread's cache make the purge due. */
    leave_much();
    size_t idle = idle_bytes();
    assert_true(idle >= 4 * HK_MIB);
    assert_true(hk_decay_left_is_due(0));
    hk_decay_left(0);
    assert_int_equal(idle_bytes(), 0);
    leave_much();
    assert_false(hk_decay_left_is_due(0));
    fake_os_pass_ms(idle / (64 * HK_KIB) - 1);
    assert_false(hk_decay_left_is_due(0));
    fake_os_pass_ms(2);
    assert_true(hk_decay_left_is_due(0));
    SET_KNOB(purge_delay, 2000); /* With a longer purge delay, the user wants free memory to stay resident. */
    assert_false(hk_decay_left_is_due(0));
}

/* If no ended thread has left free memory, the end of another thread must not search the heap again. */
UNIT_TEST(left_by_none)
{
    bool zeroed;
    unit_start();
    void *block = hk_large_alloc(40 * HK_MIB, 16, &zeroed);
    assert_true(hk_decay_left_is_due(0));
    hk_decay_left(0);
    fake_os_pass_ms(10000);
    assert_false(hk_decay_left_is_due(0));
    hk_large_free(block);
    hk_decay_all(0);
    assert_false(hk_decay_left_is_due(0));
    leave_much(); /* The heap was empty since the purge, so all free memory counts as new. */
    assert_true(hk_decay_left_is_due(0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all),
                                       cmocka_unit_test(all_but_what_is_to_be_kept),
                                       cmocka_unit_test(when_due),
                                       cmocka_unit_test(keeps_what_nothing_demands),
                                       cmocka_unit_test(not_too_often),
                                       cmocka_unit_test(one_epoch_for_all),
                                       cmocka_unit_test(no_delay),
                                       cmocka_unit_test(rested),
                                       cmocka_unit_test(ceiling),
                                       cmocka_unit_test(purges_excess),
                                       cmocka_unit_test(keeps_memory_used_again),
                                       cmocka_unit_test(excess_has_a_rate),
                                       cmocka_unit_test(excess_in_slabs),
                                       cmocka_unit_test(excess_purged_in_vain),
                                       cmocka_unit_test(has_shrunk),
                                       cmocka_unit_test(excess_stays_if_kept),
                                       cmocka_unit_test(excess_stays_in_batches),
                                       cmocka_unit_test(excess_waits_for_a_long_delay),
                                       cmocka_unit_test(share_of_time),
                                       cmocka_unit_test(below_the_watermark),
                                       cmocka_unit_test(reclaims_idle_memory),
                                       cmocka_unit_test(watermark_rises),
                                       cmocka_unit_test(watermark_falls),
                                       cmocka_unit_test(watermark_follows_sweeps),
                                       cmocka_unit_test(reclaims_within_its_time),
                                       cmocka_unit_test(reclaims_for_new_memory),
                                       cmocka_unit_test(reclaims_after_a_while),
                                       cmocka_unit_test(one_call_a_hold),
                                       cmocka_unit_test(one_call_a_hold_in_background),
                                       cmocka_unit_test(left_by_threads),
                                       cmocka_unit_test(left_by_none)};
    return cmocka_run_group_tests_name("decay", tests, NULL, NULL);
}
