/* Chunk: grains given out zeroed, never twice, lowest first; pages that are idle, withdrawn, and clean when they come back. */
#include "unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "span/chunk.h"
#include "support/pattern.h"
#include "support/rng.h"

enum { SLOTS = 64, STEPS = 20000, PAGE = 4096, ALL = HK_CHUNK_GRAINS - HK_CHUNK_HEADER };

static struct hk_chunk *chunk;

static void start(void)
{
    chunk = aligned_alloc(HK_CHUNK_BYTES, HK_CHUNK_BYTES);
    assert_non_null(chunk);
    memset(chunk, 0xee, HK_CHUNK_BYTES);
    hk_chunk_init(chunk);
    assert_int_equal(chunk->free, 0);
    hk_chunk_give(chunk, (char *)chunk + HK_CHUNK_HEADER * HK_CHUNK_GRAIN, ALL);
}

static void *take_soiling(unsigned grains, unsigned *soiled)
{
    struct hk_stretch taken = hk_chunk_take(chunk, grains, grains);
    *soiled = taken.soiled;
    if (taken.start == NULL)
        return NULL;
    assert_int_equal(taken.end - taken.start, grains * HK_CHUNK_GRAIN);
    if (taken.zero)
        assert_true(all_zero((unsigned char *)taken.start, grains * (size_t)HK_CHUNK_GRAIN));
    else
        memset(taken.start, 0, grains * (size_t)HK_CHUNK_GRAIN);
    return taken.start;
}

static void *take(unsigned grains)
{
    unsigned soiled;
    return take_soiling(grains, &soiled);
}

/* As much as there is, from the least to the most that was asked for. */
UNIT_TEST(least_and_most)
{
    start();
    struct hk_stretch first = hk_chunk_take(chunk, 3, 100), second = hk_chunk_take(chunk, 3, 100);
    assert_int_equal(first.end - first.start, 100 * HK_CHUNK_GRAIN);
    assert_ptr_equal(second.start, first.end);
    hk_chunk_give(chunk, first.start + 10 * HK_CHUNK_GRAIN, 20);
    struct hk_stretch third = hk_chunk_take(chunk, 3, 100);
    assert_ptr_equal(third.start, first.start + 10 * HK_CHUNK_GRAIN);
    assert_int_equal(third.end - third.start, 20 * HK_CHUNK_GRAIN);
    hk_chunk_give(chunk, first.start + 50 * HK_CHUNK_GRAIN, 2);
    assert_ptr_equal(hk_chunk_take(chunk, 3, 100).start, second.end);
    struct hk_stretch rest = hk_chunk_take(chunk, 3, HK_CHUNK_GRAINS);
    assert_ptr_equal(rest.end, (char *)chunk + HK_CHUNK_BYTES);
    assert_null(hk_chunk_take(chunk, 3, 100).start);
    assert_ptr_equal(hk_chunk_take(chunk, 1, 100).start, first.start + 50 * HK_CHUNK_GRAIN);
}

UNIT_TEST(random_load)
{
    struct {
        unsigned char *p;
        unsigned grains;
    } slots[SLOTS] = {{NULL, 0}};
    struct rng rng = rng_seeded(5);
    unsigned used = 0, refused = 0;
    start();
    for (unsigned step = 0; step < STEPS; step++) {
        uint32_t i = rng_below(&rng, SLOTS);
        if (slots[i].p != NULL) {
            assert_true(pattern_holds(slots[i].p, slots[i].grains * (size_t)HK_CHUNK_GRAIN, i));
            hk_chunk_give(chunk, slots[i].p, slots[i].grains);
            used -= slots[i].grains;
            slots[i].p = NULL;
            continue;
        }
        slots[i].grains = 1 + rng_below(&rng, rng_below(&rng, 6) == 0 ? 150 : 20);
        slots[i].p = take(slots[i].grains);
        if (slots[i].p == NULL) {
            refused++;
            continue;
        }
        assert_true(all_zero(slots[i].p, slots[i].grains * (size_t)HK_CHUNK_GRAIN));
        assert_true(hk_chunk_of(slots[i].p) == chunk);
        pattern_fill(slots[i].p, slots[i].grains * (size_t)HK_CHUNK_GRAIN, i);
        used += slots[i].grains;
        assert_int_equal(chunk->free, ALL - used);
    }
    assert_true(refused > 0);
}

/* Every grain can be had, one by one and in one block, and no more. */
UNIT_TEST(all_of_it)
{
    start();
    char *first = take(1), *last = first;
    for (unsigned i = 1; i < ALL; i++) {
        char *next = take(1);
        assert_ptr_equal(next, last + HK_CHUNK_GRAIN);
        last = next;
    }
    assert_null(take(1));
    assert_int_equal(chunk->longest, 0);
    for (unsigned i = 0; i < ALL; i++)
        hk_chunk_give(chunk, first + (size_t)i * HK_CHUNK_GRAIN, 1);
    assert_ptr_equal(take(ALL), first);
    hk_chunk_give(chunk, first, ALL);
    assert_null(take(ALL + 1));
}

/* What does not fit is known afterwards, until something is given back. */
UNIT_TEST(longest)
{
    start();
    char *block[5];
    for (int i = 0; i < 5; i++)
        block[i] = take(100);
    take(ALL - 500);
    hk_chunk_give(chunk, block[1], 100);
    hk_chunk_give(chunk, block[3], 100);
    assert_null(take(150));
    assert_int_equal(chunk->longest, 100);
    hk_chunk_give(chunk, block[2], 100);
    assert_ptr_equal(take(300), block[1]);
}

UNIT_TEST(idle_pages)
{
    unsigned soiled;
    start();
    assert_int_equal(hk_chunk_idle(chunk, true), 0xffff);
    assert_int_equal(hk_chunk_idle(chunk, false), 0xfffe);
    hk_chunk_withdraw(chunk, 0xfffe);
    memset((char *)chunk + PAGE, 0, HK_CHUNK_BYTES - PAGE);
    hk_chunk_return(chunk, 0xfffe, true);
    assert_int_equal(hk_chunk_idle(chunk, true), 1);
    char *block = take_soiling(300, &soiled); /* pages 0 to 4 */
    assert_int_equal(soiled, 0x1e);
    memset(block, 0xff, 300 * HK_CHUNK_GRAIN);
    assert_int_equal(hk_chunk_idle(chunk, true), 0);
    hk_chunk_give(chunk, block, 300);
    assert_int_equal(hk_chunk_idle(chunk, false), 0x1e);
    assert_int_equal(hk_chunk_idle(chunk, true), 0x1f);

    hk_chunk_withdraw(chunk, 0x0c);
    char *other = take_soiling(100, &soiled); /* it goes around them */
    assert_int_equal(soiled, 0);
    assert_true(other < (char *)chunk + 2 * PAGE);
    assert_true(all_zero(other, 100 * HK_CHUNK_GRAIN));
    memset((char *)chunk + 2 * PAGE, 0, 2 * PAGE);
    hk_chunk_return(chunk, 0x0c, true);
    assert_int_equal(hk_chunk_idle(chunk, false), 0x10);
    hk_chunk_withdraw(chunk, 0x10);
    hk_chunk_return(chunk, 0x10, false); /* refused: it is as dirty as it was */
    char *more = take_soiling(200, &soiled);
    assert_int_equal(soiled, 0x0c);
    assert_true(all_zero(more, 200 * HK_CHUNK_GRAIN));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_load), cmocka_unit_test(all_of_it), cmocka_unit_test(longest), cmocka_unit_test(least_and_most),
                                       cmocka_unit_test(idle_pages)};
    return cmocka_run_group_tests_name("chunk", tests, NULL, NULL);
}
