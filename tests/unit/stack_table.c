/* Tests that each stack has one number, and that each number belongs to one stack. If the table is full, the number gives only the caller. */
#include "unit/unit.h"

#include <pthread.h>

#include "prof/stack.h"
#include "span/meta.h"

enum { THREADS = 64 };

static pthread_barrier_t together;

static struct hk_stack stack_of(uintptr_t first, unsigned depth)
{
    struct hk_stack stack = {.depth = depth};
    for (unsigned i = 0; i < depth; i++)
        stack.frames[i] = (void *)(first + i * 0x40);
    return stack;
}

static uint32_t enter(uintptr_t first, unsigned depth)
{
    struct hk_stack stack = stack_of(first, depth);
    return hk_stack_table_enter(&stack);
}

static void assert_is(uint32_t number, uintptr_t first, unsigned depth)
{
    struct hk_stack stack;
    assert_non_null(hk_stack_table_get(number));
    hk_stack_unpack(&stack, hk_stack_table_get(number));
    assert_int_equal(stack.depth, depth);
    for (unsigned i = 0; i < depth; i++)
        assert_ptr_equal(stack.frames[i], first + i * 0x40);
}

static void start(void)
{
    unit_start();
    assert_true(hk_stack_table_make());
}

UNIT_TEST(one_number_each)
{
    start();
    uint32_t a = enter(0x555500001000, 5), b = enter(0x555500001000, 6), c = enter(0x555500002000, 5);
    assert_true(a != 0 && b != 0 && c != 0 && a != b && b != c && a != c);
    assert_int_equal(enter(0x555500001000, 5), a);
    assert_int_equal(enter(0x555500001000, 6), b);
    assert_is(a, 0x555500001000, 5);
    assert_is(b, 0x555500001000, 6);
    assert_is(c, 0x555500002000, 5);
    assert_null(hk_stack_table_get(0));
    assert_null(hk_stack_table_get(HK_STACK_TABLE_SIZE + 1));
}

UNIT_TEST(callers_alone_at_last)
{
    unsigned whole = 0, alone = 0, none = 0;
    start();
    for (uintptr_t i = 0; i < 4 * HK_STACK_TABLE_SIZE; i++) {
        uint32_t number = enter(0x555500000000 + i * 0x1000, 3);
        struct hk_stack stack = {0};
        if (number != 0)
            hk_stack_unpack(&stack, hk_stack_table_get(number));
        whole += stack.depth == 3;
        alone += stack.depth == 1;
        none += number == 0;
        if (number != 0)
            assert_ptr_equal(stack.frames[0], 0x555500000000 + i * 0x1000);
    }
    assert_in_range(whole, HK_STACK_TABLE_SIZE / 2, HK_STACK_TABLE_SIZE * 3 / 4);
    assert_in_range(alone, HK_STACK_TABLE_SIZE / 8, HK_STACK_TABLE_SIZE / 2);
    assert_int_equal(whole + alone + none, 4 * HK_STACK_TABLE_SIZE);
    assert_is(enter(0x555500000000, 3), 0x555500000000, 3); /* A stack that is already in the table keeps its number. */
}

static void *enter_one(void *number)
{
    pthread_barrier_wait(&together);
    *(uint32_t *)number = enter(0x555500001000, 5);
    return NULL;
}

UNIT_TEST(first_stacks_at_one_moment_map_nothing)
{
    pthread_t threads[THREADS];
    uint32_t numbers[THREADS];
    start();
    size_t mapped = hk_meta_mapped(), used = mapped - hk_meta_unused();
    assert_int_equal(pthread_barrier_init(&together, NULL, THREADS), 0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, enter_one, &numbers[i]), 0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(numbers[i], numbers[0]);
    assert_int_not_equal(numbers[0], 0);
    assert_int_equal(hk_meta_mapped(), mapped);
    assert_int_equal(hk_meta_mapped() - hk_meta_unused(), used);
}

UNIT_TEST(memory_is_refused)
{
    assert_int_equal(enter(0x555500001000, 5), 0); /* There is no table yet. */
    unit_start();
    fake_os_refuse(fake_refuse_mappings);
    if (!HK_DEBUG) /* In debug builds the start has already made the table. */
        assert_false(hk_stack_table_make());
    fake_os_refuse(NULL);
    assert_true(hk_stack_table_make());
    size_t used = hk_meta_mapped() - hk_meta_unused();
    assert_true(hk_stack_table_make()); /* A second call does not make another table. */
    assert_int_equal(hk_meta_mapped() - hk_meta_unused(), used);
    assert_int_not_equal(enter(0x555500001000, 5), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_number_each),
        cmocka_unit_test(callers_alone_at_last),
        cmocka_unit_test(first_stacks_at_one_moment_map_nothing),
        cmocka_unit_test(memory_is_refused),
    };
    return cmocka_run_group_tests_name("places", tests, NULL, NULL);
}
