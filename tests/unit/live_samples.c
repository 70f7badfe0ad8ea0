/* Tests the report of live samples. Each sampled block represents a number of bytes, and pins its share of the free bytes in its pages. */
#include "unit/unit.h"

#include <string.h>

#include "tcache/tcache.h"
#include "hakmem.h"
#include "policy/options.h"
#include "prof/hooks.h"
#include "report/heap_stats.h"

enum { SIZE = 1024, PAGES = 4, PER_PAGE = HK_PAGE / SIZE, BLOCKS = PAGES * PER_PAGE };

static struct hk_live_samples live_samples;
static char *blocks[BLOCKS];

/* A mean of one byte makes each block a sample that represents only itself. */
static void start(void)
{
    hk_options.heap_sample = 1;
    unit_start();
    for (int i = 0; i < BLOCKS; i++)
        memset(blocks[i] = hak_malloc(SIZE), 1, SIZE);
    assert_int_equal((uintptr_t)blocks[0] % HK_PAGE, 0);
    assert_ptr_equal(blocks[BLOCKS - 1], blocks[0] + (BLOCKS - 1) * SIZE);
    hk_bin_empty(hk_tcache_self(), CLASS_OF_1024);
}

static void release(int first, int end)
{
    for (int i = first; i < end; i++)
        hak_free(blocks[i]);
    hk_bin_empty(hk_tcache_self(), CLASS_OF_1024);
}

static void assert_all(uint64_t live, uint64_t pinned)
{
    struct hk_live_samples_line sums = {0};
    hk_live_samples_take(&live_samples);
    assert_int_equal(live_samples.mean, 1);
    assert_int_equal(live_samples.all.blocks, live);
    assert_int_equal(live_samples.all.bytes, live * SIZE);
    assert_int_equal(live_samples.all.pinned, pinned);
    for (unsigned i = 0; i < live_samples.shown; i++) {
        sums.blocks += live_samples.stacks[i].blocks;
        sums.pinned += live_samples.stacks[i].pinned;
    }
    assert_int_equal(sums.blocks, live);
    assert_int_equal(sums.pinned, pinned);
}

UNIT_TEST(shares_of_a_page)
{
    start();
    assert_all(BLOCKS, 0);
    release(1, 2); /* Three live blocks remain in the first page, and each of them pins a third of the free block. */
    assert_all(BLOCKS - 1, 3 * (SIZE / 3));
    release(2, PER_PAGE);
    assert_all(BLOCKS - PER_PAGE + 1, (PER_PAGE - 1) * SIZE);
}

/* No block pins the bytes of a page without live blocks, because a purge can return this page. */
UNIT_TEST(free_pages)
{
    start();
    release(PER_PAGE, BLOCKS);
    assert_all(PER_PAGE, 0);
    hak_malloc_trim(0);
    assert_all(PER_PAGE, 0);
}

/* A large block has no neighbors. A block that fills its slab has none either. */
UNIT_TEST(alone)
{
    start();
    char *large = hak_malloc(3 * HK_MIB), *medium = hak_malloc(HK_MIB);
    hk_live_samples_take(&live_samples);
    assert_int_equal(live_samples.all.bytes, BLOCKS * SIZE + 4 * HK_MIB);
    assert_int_equal(live_samples.all.pinned, 0);
    assert_int_equal(live_samples.stacks[0].bytes, 3 * HK_MIB);
    hak_free(large);
    hak_free(medium);
    assert_all(BLOCKS, 0);
}

/* The report lists the stacks with the most bytes. The sums include all stacks. */
UNIT_TEST(more_stacks_than_lines)
{
    enum { STACKS = HK_REPORT_STACKS + 50 };
    hk_options.heap_sample = 1;
    unit_start();
    struct hk_stack stack = {2, {(void *)0x1000, (void *)0x2000}};
    for (uintptr_t i = 0; i < STACKS; i++) {
        stack.frames[0] = (void *)(0x1000 + i);
        assert_true(hk_sample_enter(&hk_samples, (void *)(uintptr_t)(0x7f0000000000 + i * 4096), 1000 + i, &stack) !=
                    HK_SAMPLE_SITES);
    }
    hk_live_samples_take(&live_samples);
    assert_int_equal(live_samples.shown, HK_REPORT_STACKS);
    assert_int_equal(live_samples.all.blocks, STACKS);
    assert_int_equal(live_samples.all.pinned, 0);
    for (unsigned i = 0; i < live_samples.shown; i++)
        assert_int_equal(live_samples.stacks[i].bytes, 1000 + STACKS - 1 - i);
}

UNIT_TEST(none)
{
    unit_start();
    live_samples.shown = 7;
    hk_live_samples_take(&live_samples);
    assert_int_equal(live_samples.mean + live_samples.shown + live_samples.all.blocks, 0);
}

UNIT_TEST(refused)
{
    start();
    fake_os_refuse(fake_refuse_map);
    hk_live_samples_take(&live_samples);
    fake_os_refuse(NULL);
    assert_int_equal(live_samples.mean + live_samples.shown, 0);
    fake_os_refuse(fake_refuse_resident);
    hk_live_samples_take(&live_samples);
    assert_int_equal(live_samples.all.blocks, BLOCKS);
    assert_int_equal(live_samples.all.pinned, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_of_a_page),       cmocka_unit_test(free_pages), cmocka_unit_test(alone),
        cmocka_unit_test(more_stacks_than_lines), cmocka_unit_test(none),       cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests_name("live_samples", tests, NULL, NULL);
}
