/* Lodge: blocks of several of a slab's blocks: whole while they are taken, and whole when they come back. */
#include "unit/unit.h"

#include <string.h>

#include "front/cache.h"
#include "slab/lodge.h"
#include "slab/registry.h"
#include "slab/remote.h"
#include "support/rng.h"

enum { OWNER = 7, BLOCKS = 1024 };

static void *blocks[BLOCKS];

/* Of 64 B, all taken; blocks[i] is the block i. */
static struct hk_slab *make_full(uint32_t owner)
{
    struct hk_slab *slab = unit_slab(CLASS_OF_64, owner);
    assert_non_null(slab);
    hk_slab_take(slab, blocks + BLOCKS, BLOCKS);
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = (void *)(slab->start + i * (size_t)64);
    return slab;
}

static void give(struct hk_slab *slab, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++)
        hk_slab_give(slab, blocks[i]);
}

static unsigned route_class(const struct hk_slab *slab) { return hk_route_class(hk_map_lookup(slab->start)); }

UNIT_TEST(whole_runs)
{
    void *lodger[8];
    unit_start();
    struct hk_slab *slab = make_full(OWNER);
    give(slab, 10, 12);
    give(slab, 20, 26);
    give(slab, 63, 66); /* over two words */
    assert_int_equal(hk_lodge_take(slab, 3, lodger + 8, 8), 3);
    assert_ptr_equal(lodger[7], blocks[20]);
    assert_ptr_equal(lodger[6], blocks[23]);
    assert_ptr_equal(lodger[5], blocks[63]);
    assert_int_equal(slab->free, 2);
    assert_int_equal(slab->joined, 6);
    assert_int_equal(route_class(slab), HK_CLASS_MIXED);
    for (int i = 5; i < 8; i++) {
        assert_int_equal(hk_lodge_bytes(lodger[i]), 192);
        assert_int_equal(hk_lodge_class(lodger[i]), CLASS_OF_192);
    }
    assert_int_equal(hk_lodge_bytes(blocks[9]), 64);
    assert_int_equal(hk_lodge_take(slab, 3, lodger + 1, 1), 0);
    /* Back, in any order, with blocks of the slab's own between. */
    void *mixed[] = {lodger[6], blocks[9], lodger[5], lodger[7]};
    assert_int_equal(hk_lodge_give_run(slab, mixed, 4), 4);
    assert_int_equal(slab->free, 12);
    assert_int_equal(slab->joined, 0);
    assert_int_equal(route_class(slab), CLASS_OF_64);
    assert_int_equal(slab->first_word, 0);
}

/* What finds no room changes nothing that others see. */
UNIT_TEST(no_room)
{
    void *lodger;
    unit_start();
    struct hk_slab *slab = make_full(OWNER);
    for (unsigned i = 0; i < BLOCKS; i += 2)
        give(slab, i, i + 1);
    assert_int_equal(hk_lodge_take(slab, 2, &lodger + 1, 1), 0);
    assert_int_equal(slab->free, BLOCKS / 2);
    assert_int_equal(route_class(slab), CLASS_OF_64);
    give(slab, BLOCKS - 1, BLOCKS);
    assert_int_equal(hk_lodge_take(slab, 3, &lodger + 1, 1), 0);
    assert_int_equal(hk_lodge_take(slab, 2, &lodger + 1, 1), 1);
    assert_ptr_equal(lodger, blocks[BLOCKS - 2]);
}

/* Freed by a stranger. */
UNIT_TEST(from_afar)
{
    void *lodger[2];
    unit_start();
    struct hk_slab *slab = make_full(OWNER);
    give(slab, 62, 70);
    assert_int_equal(hk_lodge_take(slab, 4, lodger + 2, 2), 2);
    for (int i = 0; i < 2; i++) {
        size_t index = hk_slab_index(slab, (uintptr_t)lodger[i]);
        hk_remote_mark(slab, (unsigned)(index / 64), (uint64_t)1 << (index % 64));
    }
    assert_true(hk_remote_count(slab, 2));
    assert_int_equal(hk_remote_collect(slab), 2);
    assert_int_equal(slab->free, 8);
    assert_int_equal(hk_load(slab->xstate), 0);
    assert_int_equal(route_class(slab), CLASS_OF_64);
}

/* As a child of fork finds a slab whose owner was in the middle of something else. */
UNIT_TEST(merged)
{
    void *lodger[2];
    unit_start();
    struct hk_slab *slab = make_full(OWNER);
    give(slab, 100, 108);
    assert_int_equal(hk_lodge_take(slab, 4, lodger + 2, 2), 2);
    hk_remote_mark(slab, 100 / 64, (uint64_t)1 << (100 % 64));
    slab->free = 77;
    slab->joined = 0;
    assert_true(hk_remote_merge(slab));
    hk_slab_recount(slab);
    assert_int_equal(slab->free, 4);
    assert_int_equal(slab->joined, 3);
    assert_true(slab->mixed);
    assert_int_equal(hk_lodge_cells(slab, 104), 4);
}

static void give_again(void *block) { hk_slab_give(hk_slab_at((uintptr_t)block), block); }
static void mark_inside(void *block)
{
    struct hk_slab *slab = hk_slab_at((uintptr_t)block);
    size_t index = hk_slab_index(slab, (uintptr_t)block);
    hk_remote_mark(slab, (unsigned)(index / 64), (uint64_t)1 << (index % 64));
    hk_remote_count(slab, 1);
    hk_remote_collect(slab);
}

UNIT_TEST(wrong_pointers)
{
    void *lodger;
    unit_start();
    struct hk_slab *slab = make_full(OWNER);
    give(slab, 200, 203);
    assert_int_equal(hk_lodge_take(slab, 3, &lodger + 1, 1), 1);
    unit_dies(give_again, blocks[201], "pointer inside a block");
    unit_dies(mark_inside, blocks[202], "pointer inside a block");
    unit_dies(give_again, (char *)lodger + 8, "pointer inside a block");
    hk_slab_give(slab, lodger);
    unit_dies(give_again, lodger, "block already free");
}

/* Its last thread is gone: the route says still that lodgers are there, and a lodger comes home under the registry's lock. */
UNIT_TEST(orphaned)
{
    void *lodger;
    unit_start();
    struct hk_slab *slab = make_full(OWNER);
    give(slab, 0, 5);
    assert_int_equal(hk_lodge_take(slab, 5, &lodger + 1, 1), 1);
    hk_registry_abandon(slab);
    assert_int_equal(hk_map_lookup(slab->start), hk_route(HK_ORPHAN, HK_CLASS_MIXED));
    hk_cache_free(hk_cache_self(), lodger, hk_map_lookup((uintptr_t)lodger));
    assert_int_equal(slab->free, 5);
    assert_int_equal(hk_map_lookup(slab->start), hk_route(HK_ORPHAN, CLASS_OF_64));
    for (unsigned i = 5; i < BLOCKS; i++)
        hk_cache_free(hk_cache_self(), blocks[i], hk_map_lookup((uintptr_t)blocks[i]));
    unit_heap_holds(0);
}

static unsigned overlaps(const unsigned char *taken, unsigned from, unsigned cells)
{
    unsigned sum = 0;
    for (unsigned at = from; at < from + cells; at++)
        sum += taken[at];
    return sum;
}

/* At random, against a table of who has what. */
UNIT_TEST(at_random)
{
    static unsigned char taken[BLOCKS], length[BLOCKS]; /* length: at a block's beginning */
    static struct hk_census census;
    unit_start();
    struct hk_slab *slab = make_full(OWNER);
    struct rng rng = rng_seeded(12);
    memset(taken, 1, sizeof taken);
    memset(length, 1, sizeof length);
    for (unsigned step = 0; step < 200000; step++) {
        unsigned at = (unsigned)rng_below(&rng, BLOCKS);
        if (length[at] != 0) {
            hk_slab_give(slab, (void *)(slab->start + at * (size_t)64));
            memset(taken + at, 0, length[at]);
            length[at] = 0;
        } else if (slab->free > 0) {
            void *block;
            unsigned cells = 1 + (unsigned)rng_below(&rng, HK_LODGE_MOST_CELLS);
            if (cells == 1)
                hk_slab_take(slab, &block + 1, 1);
            else if (hk_lodge_take(slab, cells, &block + 1, 1) == 0)
                continue;
            unsigned index = (unsigned)hk_slab_index(slab, (uintptr_t)block);
            assert_int_equal(overlaps(taken, index, cells), 0);
            assert_int_equal(hk_lodge_cells(slab, index), cells);
            memset(taken + index, 1, cells);
            length[index] = (unsigned char)cells;
        }
        if (step % 1000 == 0)
            assert_null(heap_is_wrong(&census));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_runs), cmocka_unit_test(no_room),        cmocka_unit_test(from_afar),
        cmocka_unit_test(merged),     cmocka_unit_test(wrong_pointers), cmocka_unit_test(orphaned),
        cmocka_unit_test(at_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
