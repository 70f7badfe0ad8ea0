/* Tests that a sample is found by its address alone, and that a site counts live and total bytes. A sample for which there is no room is refused
 * without any effect. */
#include "unit/unit.h"

#include <pthread.h>

#include "prof/sample.h"
#include "prof/stack.h"
#include "span/page_map.h"
#include "support/rng.h"

enum { BLOCKS = 20000, SIZES = 3, THREADS = 4, STEPS = 20000, OWN = 300 };

static const struct hk_stack here = {2, {(void *)0x1000, (void *)0x2000}};
static const struct hk_stack there = {3, {(void *)0x1000, (void *)0x2000, (void *)0x3000}};

static const void *address(uint64_t i) { return (const void *)(0x7f0000000000 + i * 48); }

struct sums {
    unsigned sites;
    int64_t live_blocks, live_bytes;
    uint64_t blocks, bytes;
};

static void add_up(void *context, const struct hk_site *site, unsigned number)
{
    (void)number;
    struct sums *sums = context;
    sums->sites++;
    sums->live_blocks += hk_load(site->xlive_blocks);
    sums->live_bytes += hk_load(site->xlive_bytes);
    sums->blocks += hk_load(site->xblocks);
    sums->bytes += hk_load(site->xbytes);
}

static void assert_sums(unsigned sites, int64_t live_blocks, int64_t live_bytes, uint64_t blocks, uint64_t bytes)
{
    struct sums sums = {0};
    hk_sites_visit(&hk_samples, add_up, &sums);
    assert_int_equal(sums.sites, sites);
    assert_int_equal(sums.live_blocks, live_blocks);
    assert_int_equal(sums.live_bytes, live_bytes);
    assert_int_equal(sums.blocks, blocks);
    assert_int_equal(sums.bytes, bytes);
}

static void open_tables(void) { assert_true(hk_samples_open(&hk_samples)); }

UNIT_TEST(by_stack_and_size)
{
    open_tables();
    assert_true(hk_sample_enter(&hk_samples, address(1), 100, &here) != HK_SAMPLE_SITES);
    assert_true(hk_sample_enter(&hk_samples, address(2), 120, &here) != HK_SAMPLE_SITES);
    assert_sums(1, 2, 220, 2, 220);
    assert_true(hk_sample_enter(&hk_samples, address(3), 100, &there) != HK_SAMPLE_SITES);
    assert_sums(2, 3, 320, 3, 320);
    assert_true(hk_sample_enter(&hk_samples, address(4), 1 << 30, &here) != HK_SAMPLE_SITES);
    assert_sums(3, 4, 320 + (1 << 30), 4, 320 + (1 << 30));
    assert_true(hk_sample_lift(&hk_samples, address(1), false) != 0);
    assert_sums(3, 3, 220 + (1 << 30), 4, 320 + (1 << 30));
}

UNIT_TEST(found_once)
{
    open_tables();
    for (uint64_t i = 0; i < BLOCKS; i++)
        assert_true(hk_sample_enter(&hk_samples, address(i), 1 + i % SIZES, &here) != HK_SAMPLE_SITES);
    for (uint64_t i = 0; i < BLOCKS; i++) {
        assert_true(hk_sample_may_be(&hk_samples, address(i)));
        assert_true(hk_sample_lift(&hk_samples, address(i), false) != 0);
        assert_true(hk_sample_lift(&hk_samples, address(i), false) == 0);
        assert_true(hk_sample_lift(&hk_samples, (const char *)address(i) + 16, false) == 0);
    }
    for (uint64_t i = 0; i < BLOCKS; i++)
        assert_false(hk_sample_may_be(&hk_samples, address(i)));
}

/* After a failed resize, the sample counts as live again, but not as a second allocation. */
UNIT_TEST(put_back)
{
    open_tables();
    assert_true(hk_sample_enter(&hk_samples, address(7), 5000, &here) != HK_SAMPLE_SITES);
    uint64_t record = hk_sample_lift(&hk_samples, address(7), false);
    assert_sums(1, 0, 0, 1, 5000);
    assert_true(hk_sample_put(&hk_samples, address(7), record));
    assert_sums(1, 1, 5000, 1, 5000);
    assert_int_equal(hk_sample_lift(&hk_samples, address(7), false), record);
}

UNIT_TEST(full_places)
{
    uint64_t entered = 0;
    open_tables();
    while (hk_sample_enter(&hk_samples, address(entered), 64, &here) != HK_SAMPLE_SITES)
        entered++;
    assert_true(entered > BLOCKS);
    assert_sums(1, (int64_t)entered, (int64_t)entered * 64, entered, entered * 64);
    assert_int_equal(hk_sample_lift(&hk_samples, address(entered), false), 0);
    assert_true(hk_sample_lift(&hk_samples, address(0), false) != 0);
    assert_true(hk_sample_enter(&hk_samples, address(0), 64, &here) != HK_SAMPLE_SITES);
}

UNIT_TEST(full_sites)
{
    struct hk_stack stack = here;
    uint64_t entered = 0;
    open_tables();
    for (; hk_sample_enter(&hk_samples, address(entered), 64, &stack) != HK_SAMPLE_SITES; entered++)
        stack.frames[0] = (void *)(0x100000 + entered);
    assert_true(entered > 1000);
    assert_true(hk_sample_enter(&hk_samples, address(entered), 64, &here) != HK_SAMPLE_SITES);
    assert_sums((unsigned)entered, (int64_t)entered + 1, ((int64_t)entered + 1) * 64, entered + 1, (entered + 1) * 64);
}

UNIT_TEST(refused)
{
    fake_os_refuse(fake_refuse_map);
    assert_false(hk_samples_open(&hk_samples));
    fake_os_refuse(NULL);
    assert_true(hk_samples_open(&hk_samples));
}

/* Each thread has blocks of its own. All threads share the sites, the buckets and the filter. */
static void *churn(void *argument)
{
    uint64_t thread = (uint64_t)(uintptr_t)argument;
    struct rng rng = rng_seeded(thread);
    bool live[OWN] = {false};
    for (int step = 0; step < STEPS; step++) {
        uint32_t i = rng_below(&rng, OWN);
        const void *block = address(i * THREADS + thread);
        struct hk_stack stack = here;
        stack.frames[1] = (void *)(uintptr_t)(1 + rng_below(&rng, 50));
        if (live[i])
            assert_true(hk_sample_lift(&hk_samples, block, false) != 0);
        else
            assert_true(hk_sample_enter(&hk_samples, block, 64, &stack) != HK_SAMPLE_SITES);
        live[i] = !live[i];
    }
    for (uint64_t i = 0; i < OWN; i++)
        assert_int_equal(hk_sample_lift(&hk_samples, address(i * THREADS + thread), false) != 0, live[i]);
    return NULL;
}

UNIT_TEST(threads)
{
    pthread_t threads[THREADS];
    struct sums sums = {0};
    open_tables();
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    hk_sites_visit(&hk_samples, add_up, &sums);
    assert_int_equal(sums.sites, 50);
    assert_int_equal(sums.live_blocks, 0);
    assert_int_equal(sums.live_bytes, 0);
    assert_int_equal(sums.bytes, sums.blocks * 64);
}

/* The stack of a sample begins with malloc's caller. If the unwinder does not find the caller, the stack consists of the caller alone. */
UNIT_TEST(stacks)
{
    struct hk_stack stack;
    hk_stack_capture(&stack, (void *)0x1234);
    assert_int_equal(stack.depth, 1);
    assert_ptr_equal(stack.frames[0], (void *)0x1234);
    hk_stack_capture(&stack, __builtin_return_address(0));
    assert_in_range(stack.depth, 1, HK_STACK_MOST);
    assert_ptr_equal(stack.frames[0], __builtin_return_address(0));
    assert_true(UNIT_UNDER_TSAN || stack.depth > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_stack_and_size), cmocka_unit_test(found_once),
                                       cmocka_unit_test(put_back),          cmocka_unit_test(full_places),
                                       cmocka_unit_test(full_sites),        cmocka_unit_test(stacks),
                                       cmocka_unit_test(refused),           cmocka_unit_test(threads)};
    return cmocka_run_group_tests_name("sample", tests, NULL, NULL);
}
