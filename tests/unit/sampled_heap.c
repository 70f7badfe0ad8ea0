/* Tests the heap of sampled blocks: blocks do not overlap, and they are aligned and large enough. The pages of an empty slab are purged, and a
 * wrong free ends the program. */
#include "unit/unit.h"

#include <string.h>

#include "base/bits.h"
#include "os/os.h"
#include "policy/classes.h"
#include "prof/sampled_heap.h"
#include "support/rng.h"

enum { BLOCKS = 600, STEPS = 20000 };

struct block {
    unsigned char *at;
    size_t size;
    unsigned char fill;
};

static void begin(void)
{
    unit_start();
    assert_true(hk_sampled_heap_alloc(100, 16) == NULL);
    assert_true(hk_sampled_heap_open());
    assert_true(hk_sampled_heap_open());
}

static void check(const struct block *block)
{
    for (size_t i = 0; i < block->size; i += i + 64 < block->size ? 61 : 1)
        assert_int_equal(block->at[i], block->fill);
}

static void put(struct block *block)
{
    check(block);
    hk_sampled_heap_free(HK_CALL_FREE, block->at);
    block->at = NULL;
}

static void take(struct block *block, struct rng *rng)
{
    size_t align = (size_t)16 << rng_below(rng, 9);
    block->size = 1 + rng_below(rng, rng_below(rng, 4) == 0 ? HK_FINE_MAX : 600);
    block->at = hk_sampled_heap_alloc(block->size, align);
    block->fill = (unsigned char)rng_below(rng, 256);
    assert_non_null(block->at);
    assert_true(hk_sampled_heap_holds(block->at) && (uintptr_t)block->at % align == 0);
    assert_true(hk_sampled_heap_size(HK_CALL_USABLE_SIZE, block->at) >= block->size);
    memset(block->at, block->fill, block->size);
}

UNIT_TEST(blocks_are_disjoint)
{
    static struct block blocks[BLOCKS];
    struct rng rng = rng_seeded(5);
    size_t live = 0;
    begin();
    for (unsigned step = 0; step < STEPS; step++) {
        struct block *block = &blocks[rng_below(&rng, BLOCKS)];
        if (block->at != NULL) {
            put(block);
            live--;
        } else {
            take(block, &rng);
            live++;
        }
        assert_int_equal(hk_sampled_heap_total().blocks, live);
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        if (blocks[i].at != NULL)
            put(&blocks[i]);
    assert_int_equal(hk_sampled_heap_total().blocks, 0);
    assert_int_equal(hk_sampled_heap_total().bytes, 0);
}

static bool never_purges(void *p, size_t size)
{
    (void)p;
    (void)size;
    return false;
}

UNIT_TEST(purge_refused)
{
    begin();
    void *block = hk_sampled_heap_alloc(100, 16);
    hk_os.purge = never_purges;
    hk_sampled_heap_free(HK_CALL_FREE, block);
    assert_true(hk_sampled_heap_total().bytes > 0);
    assert_true(hk_sampled_heap_alloc(100, 16) == block);
}

UNIT_TEST(too_large)
{
    begin();
    assert_true(hk_sampled_heap_alloc(HK_FINE_MAX + 1, 16) == NULL);
    assert_true(hk_sampled_heap_alloc(100, 2 * HK_PAGE) == NULL);
    assert_non_null(hk_sampled_heap_alloc(HK_FINE_MAX, HK_PAGE));
}

static void free_it(void *block) { hk_sampled_heap_free(HK_CALL_FREE, block); }
static void measure_it(void *block) { (void)hk_sampled_heap_size(HK_CALL_REALLOC, block); }

UNIT_TEST(wrong_pointers)
{
    begin();
    char *block = hk_sampled_heap_alloc(100, 16), *beside = hk_sampled_heap_alloc(100, 16);
    hk_sampled_heap_free(HK_CALL_FREE, block);
    unit_dies(free_it, block, "block already free");
    unit_dies(free_it, beside + 16, "pointer inside a block");
    unit_dies(measure_it, beside + 1, "pointer inside a block");
    unit_dies(free_it, beside + (1 << 20), "pointer not from this allocator");
    hk_sampled_heap_free(HK_CALL_FREE, beside);
}

static void *(*real_map)(size_t size);
static size_t most_mapped;

static void *maps_less(size_t size) { return size <= most_mapped ? real_map(size) : NULL; }

/* A system with strict accounting may refuse large reservations. The heap can then use all the memory that it got. */
UNIT_TEST(little_address_space)
{
    unit_start();
    real_map = hk_os.map;
    most_mapped = HK_PAGE;
    hk_os.map = maps_less;
    assert_false(hk_sampled_heap_open());
    most_mapped = 16 << 20;
    assert_true(hk_sampled_heap_open());
    unsigned blocks = 0;
    while (hk_sampled_heap_alloc(HK_FINE_MAX, 16) != NULL)
        blocks++;
    assert_true(blocks >= 64 && blocks <= (16 << 20) / HK_FINE_MAX);
    assert_int_equal(blocks, hk_sampled_heap_total().blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_disjoint), cmocka_unit_test(purge_refused),        cmocka_unit_test(too_large),
        cmocka_unit_test(wrong_pointers),      cmocka_unit_test(little_address_space),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
