/* Tests the hit path: the gate, the bins, and calls of a thread without a cache. */
#include "unit/unit.h"

#include "hakmem.h"
#include "tcache/layout.h"

static size_t offset_of(unsigned class) { return class * HK_CLASS_BYTES; }

static enum hk_free_end free_end_of(void *block)
{
    struct hk_thread_state *hot;
    size_t offset;
    return hk_hit_free(block, &hot, &offset);
}

UNIT_TEST(gate_is_shut_before_the_start)
{
    assert_null(hk_hit_malloc(1));
    assert_null(hk_hit_malloc_coarse(HK_FINE_MAX + 1));
    assert_int_equal(free_end_of(&hk_gate), HK_FREE_ELSEWHERE);
    hk_gate_open(0);
    assert_int_equal(hk_gate.sizes_below, 0);
    assert_int_equal(hk_gate.coarse_sizes, 0);
}

UNIT_TEST(gate_admits_small_sizes_only)
{
    hk_gate_open(100);
    assert_int_equal(hk_gate.sizes_below, 101);
    assert_int_equal(hk_gate.coarse_sizes, 0);
    assert_int_equal(hk_window.hits, 0);
}

UNIT_TEST(gate_admits_all_sizes)
{
    static const size_t sizes[] = {1, HK_FINE_MAX, HK_FINE_MAX + 1, HK_MEDIUM_MAX};
    unit_start();
    hk_options.bins = "1048576x1"; /* a large class without this option gets a bin only if it is used often */
    hk_classes_begin();
    assert_int_equal(hk_gate.sizes_below, HK_FINE_MAX + 1);
    assert_int_equal(hk_gate.coarse_sizes, HK_MEDIUM_MAX - HK_FINE_MAX);
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *block = hak_malloc(sizes[i]);
        hak_free(block);
        void *again = sizes[i] <= HK_FINE_MAX ? hk_hit_malloc(sizes[i]) : hk_hit_malloc_coarse(sizes[i]);
        assert_ptr_equal(again, block);
        hak_free(block);
    }
    /* `volatile` forces the compiler to read the gate, because it would otherwise evaluate the check for a constant size. */
    volatile size_t past_fine = HK_FINE_MAX + 1, past_coarse = HK_MEDIUM_MAX + 1;
    assert_null(hk_hit_malloc(past_fine));
    assert_null(hk_hit_malloc_coarse(past_coarse));
}

UNIT_TEST(bin_is_a_stack)
{
    static struct hk_cacheless cacheless;
    struct hk_thread_state *hot = &cacheless.hot;
    void *items[4] = {NULL}, *first = &items[2], *second = &items[3];
    struct hk_bin *bin = &hot->bins[CLASS_OF_64];
    hk_cacheless_shut(&cacheless);
    assert_false(hk_hit_push(hot, offset_of(CLASS_OF_64), first));
    bin->base = bin->top = items + 1;
    bin->limit = items + 3;
    assert_int_equal(hk_bin_capacity(bin), 2);
    assert_true(hk_hit_push(hot, offset_of(CLASS_OF_64), first));
    assert_true(hk_hit_push(hot, offset_of(CLASS_OF_64), second));
    assert_false(hk_hit_push(hot, offset_of(CLASS_OF_64), first));
    assert_int_equal(hk_bin_items(bin), 2);
    assert_ptr_equal(hk_hit_pop(hot, offset_of(CLASS_OF_64), false), second);
    assert_ptr_equal(hk_hit_pop(hot, offset_of(CLASS_OF_64), true), first);
    assert_null(hk_hit_pop(hot, offset_of(CLASS_OF_64), true));
    assert_int_equal(hk_bin_items(bin), 0);
    assert_int_equal(bin->served, 0);
    assert_true(hk_hit_push(hot, offset_of(CLASS_OF_64), first));
    assert_ptr_equal(hk_bin_pop(hot, offset_of(CLASS_OF_64), false), first);
    assert_null(hk_bin_pop(hot, offset_of(CLASS_OF_64), false));
    assert_int_equal(bin->served, 1); /* only slow paths count */
    assert_true(hk_hit_push(hot, offset_of(CLASS_OF_64), first));
    assert_true(hk_hit_push(hot, offset_of(CLASS_OF_64), first));
    assert_null(hk_hit_pop(hot, offset_of(CLASS_OF_64), true)); /* freed twice: the slow path reports it */
    assert_int_equal(hk_bin_items(bin), 2);
}

static void miss_everything(void *block)
{
    assert_ptr_equal(hk_self, &hk_thread_unborn.hot);
    assert_int_equal(hk_thread_unborn.hot.key, HK_NO_KEY);
    for (size_t size = 0; size <= HK_FINE_MAX; size += HK_FINE_STEP)
        assert_null(hk_hit_malloc(size));
    for (size_t size = HK_FINE_MAX + 1; size <= HK_MEDIUM_MAX; size += HK_COARSE_STEP)
        assert_null(hk_hit_malloc_coarse(size));
    assert_int_equal(free_end_of(block), hk_hit_entry(block) != 0 ? HK_FREE_NOT_MINE : HK_FREE_ELSEWHERE);
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        assert_int_equal(hk_bin_capacity(&hk_thread_unborn.hot.bins[class]), 0);
        assert_false(hk_hit_push(&hk_thread_unborn.hot, offset_of(class), block));
        assert_int_equal(hk_thread_unborn.hot.bins[class].served, 0);
    }
}

UNIT_TEST(thread_without_a_cache_misses)
{
    unit_start();
    void *block = hak_malloc(64);
    hak_free(hak_malloc(64)); /* This call fills the bins of the first thread. */
    unit_in_thread(miss_everything, block);
    assert_true(UNIT_UNDER_TSAN || hk_hit_entry(block) == hk_page_map_lookup((uintptr_t)block));
    assert_int_equal(hk_hit_entry(NULL), 0);
    hak_free(block);
    unit_heap_holds(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gate_is_shut_before_the_start), cmocka_unit_test(gate_admits_small_sizes_only),
        cmocka_unit_test(gate_admits_all_sizes),         cmocka_unit_test(bin_is_a_stack),
        cmocka_unit_test(thread_without_a_cache_misses),
    };
    return cmocka_run_group_tests_name("hit", tests, NULL, NULL);
}
