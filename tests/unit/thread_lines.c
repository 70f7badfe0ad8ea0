/* Tests that the report has a line for each thread whose system number is known. The threads with the most memory come first. */
#include "unit/unit.h"

#include "tcache/tcache.h"
#include "hakmem.h"
#include "report/heap_stats.h"

/* Under the thread sanitizer, a thread can hold at most 64 locks, and each cache holds one. */
enum { THREADS = UNIT_UNDER_TSAN ? 40 : HK_REPORT_THREADS + 6, SHOWN = UNIT_UNDER_TSAN ? 40 : HK_REPORT_THREADS };

static struct hk_heap_stats heap_stats;
static const struct hk_thread_line *const thread_lines = heap_stats.thread_lines;

/* Takes the statistics. Returns the number of the report's lines about threads. */
static unsigned take(void)
{
    hk_heap_stats_take(&heap_stats);
    return heap_stats.thread_lines_shown;
}

UNIT_TEST(one)
{
    void *blocks[100];
    hk_options.count = HK_COUNT_ON;
    unit_start();
    for (int i = 0; i < 100; i++)
        blocks[i] = hak_malloc(64);
    for (int i = 0; i < 100; i++)
        hak_free(blocks[i]);
    assert_int_equal(take(), 0); /* The number is stored only if reports are wanted. */
    hk_tcache_self()->system_thread = 4711;
    assert_int_equal(take(), 1);
    assert_int_equal(thread_lines[0].thread, 4711);
    assert_true(thread_lines[0].served >= 100 && thread_lines[0].in_bins > 0);
    assert_int_equal(thread_lines[0].in_bins, heap_stats.sum.in_bins);
    assert_int_equal(thread_lines[0].in_depots, heap_stats.sum.in_depots);
}

UNIT_TEST(in_a_depot)
{
    enum { BLOCKS = 20000 };
    static void *blocks[BLOCKS];
    unit_start();
    hk_tcache_self()->system_thread = 1;
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = hak_malloc(64);
    for (int i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
    assert_int_equal(take(), 1);
    assert_true(thread_lines[0].in_depots > 0);
    assert_int_equal(thread_lines[0].in_depots, heap_stats.sum.in_depots);
    assert_int_equal(thread_lines[0].in_bins, heap_stats.sum.in_bins);
}

/* The main thread begins and holds all caches. */
UNIT_TEST(largest_first)
{
    static void *blocks[THREADS];
    unit_start();
    for (int i = 0; i < THREADS; i++) {
        hk_self = &hk_thread_unborn.hot;
        assert_true(hk_tcache_begin());
        hk_tcache_self()->system_thread = (uint32_t)i + 1;
        hk_tcache_self()->hot.bins[0].served = (uint64_t)i;
        for (int n = 0; n <= i; n++)
            blocks[n] = hak_malloc(100000);
        for (int n = 0; n <= i; n++)
            hak_free(blocks[n]);
    }
    assert_int_equal(take(), SHOWN);
    for (int i = 0; i + 1 < SHOWN; i++)
        assert_true(thread_lines[i].in_bins >= thread_lines[i + 1].in_bins);
    for (int i = 0; i < SHOWN; i++)
        assert_in_range(thread_lines[i].thread, 1, THREADS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one), cmocka_unit_test(in_a_depot),
                                       cmocka_unit_test(largest_first)};
    return cmocka_run_group_tests_name("thread_lines", tests, NULL, NULL);
}
