/* Tests that unpacking a packed stack returns the same frames, for any frames, and that arbitrary bytes can be unpacked without a crash. */
#include "unit/unit.h"

#include <string.h>

#include "prof/stack.h"
#include "support/rng.h"

enum { ROUNDS = 20000, LEAST_FRAMES = 17, OF_A_PROGRAM = 40 };

static struct hk_stack round_trip(const struct hk_stack *stack, int thread)
{
    struct hk_packed_stack packed;
    struct hk_stack back;
    memset(&packed, 0xff, sizeof packed);
    hk_stack_pack(&packed, stack, thread);
    assert_int_equal(packed.thread, thread);
    hk_stack_unpack(&back, &packed);
    assert_true(back.depth <= stack->depth);
    assert_memory_equal(back.frames, stack->frames, back.depth * sizeof(void *));
    return back;
}

static uint64_t wide(struct rng *rng) { return (uint64_t)rng_next(rng) << 32 ^ rng_next(rng); }

UNIT_TEST(any_frames)
{
    struct rng rng = rng_seeded(1);
    for (int i = 0; i < ROUNDS; i++) {
        struct hk_stack stack = {.depth = rng_below(&rng, HK_STACK_MOST + 1)};
        unsigned bits = 1 + rng_below(&rng, 64);
        for (unsigned f = 0; f < stack.depth; f++)
            stack.frames[f] = (void *)(wide(&rng) >> (64 - bits));
        struct hk_stack back = round_trip(&stack, 1 + i);
        assert_true(back.depth == stack.depth || back.depth >= LEAST_FRAMES);
    }
}

/* The frames of a stack lie in a module of some MiB, and a few calls lead to another module. */
UNIT_TEST(frames_of_a_program)
{
    struct rng rng = rng_seeded(2);
    struct hk_stack stack = {.depth = HK_STACK_MOST};
    uint64_t module = 0x7f0000000000;
    for (unsigned f = 0; f < stack.depth; f++) {
        if (f % 8 == 7)
            module ^= 0x2a1234567000;
        stack.frames[f] = (void *)(module + rng_below(&rng, 1 << 20));
    }
    assert_true(round_trip(&stack, 7).depth >= OF_A_PROGRAM);
}

UNIT_TEST(the_ends_of_the_numbers)
{
    struct hk_stack stack = {
        5, {NULL, (void *)UINTPTR_MAX, NULL, (void *)INTPTR_MAX, (void *)((uintptr_t)INTPTR_MAX + 1)}};
    assert_int_equal(round_trip(&stack, 1).depth, 5);
    stack.depth = 0;
    assert_int_equal(round_trip(&stack, 1).depth, 0);
}

UNIT_TEST(torn_bytes)
{
    struct rng rng = rng_seeded(3);
    struct hk_packed_stack packed;
    struct hk_stack back;
    for (int i = 0; i < ROUNDS; i++) {
        for (unsigned b = 0; b < sizeof packed; b++)
            ((uint8_t *)&packed)[b] = (uint8_t)rng_next(&rng);
        back.depth = UINT32_MAX;
        hk_stack_unpack(&back, &packed);
        assert_true(back.depth <= HK_STACK_MOST);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_frames), cmocka_unit_test(frames_of_a_program),
                                       cmocka_unit_test(the_ends_of_the_numbers), cmocka_unit_test(torn_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
