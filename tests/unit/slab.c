/* Tests that a slab serves its blocks in the order of their addresses, that its bitmaps agree, and that it reports three mistakes of the program. */
#include "unit/unit.h"

#include "span/meta.h"

#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "policy/options.h"
#include "slab/slab.h"
#include "span/page_heap.h"
#include "support/rng.h"

enum { OWNER = 7 };

static struct hk_slab *make(unsigned class)
{
    unit_start();
    struct hk_slab *slab = unit_slab(class, OWNER);
    assert_non_null(slab);
    return slab;
}

UNIT_TEST(every_class)
{
    unit_start();
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        struct hk_slab *slab = unit_slab(class, OWNER);
        assert_non_null(slab);
        assert_int_equal(slab->d.blocks, slab->d.bytes / slab->d.block_size);
        assert_int_equal(slab->free, slab->d.blocks);
        for (size_t offset = 0; offset < slab->d.bytes; offset += 61) {
            assert_int_equal(hk_slab_index(slab, slab->d.start + offset), offset / slab->d.block_size);
            assert_int_equal(hk_page_map_lookup(slab->d.start + offset), hk_entry(OWNER, class));
            assert_ptr_equal(hk_slab_at(slab->d.start + offset), slab);
        }
        uintptr_t start = slab->d.start;
        hk_slab_release(slab);
        assert_int_equal(hk_page_map_lookup(start), 0);
    }
}

/* One multiplication must give the number of the block at an offset, and whether the block begins at the offset. */
UNIT_TEST(division)
{
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        size_t size = hk_classes[class].size, index;
        uint64_t reciprocal = hk_reciprocal(size);
        for (size_t offset = 0; offset <= 4 * HK_MIB; offset += offset < 70000 ? 1 : 13) {
            assert_int_equal(hk_which(offset, reciprocal, &index), offset % size == 0);
            assert_int_equal(index, offset / size);
        }
        assert_true(hk_which(UINT32_MAX / size * size, reciprocal, &index));
        assert_false(hk_which(UINT32_MAX / size * size - 1, reciprocal, &index));
    }
}

/* From any set of free blocks, an allocation takes those with the lowest addresses. */
UNIT_TEST(lowest_leave)
{
    static void *taken[1024];
    static bool free[1024];
    struct hk_slab *slab = make(CLASS_OF_64);
    struct rng rng = rng_seeded(17);
    for (int turn = 0; turn < 400; turn++) {
        hk_slab_alloc(slab, taken + slab->free, slab->free);
        memset(free, 0, sizeof free);
        for (size_t i = 0; i < 1024; i += 1 + rng_below(&rng, turn % 4 == 0 ? 90 : 3))
            for (size_t n = 1 + rng_below(&rng, turn % 3 == 0 ? 150 : 2); n > 0 && i < 1024; n--, i++) {
                hk_slab_free(slab, (char *)slab->d.start + i * 64);
                free[i] = true;
            }
        while (slab->free > 0) {
            unsigned n = 1 + rng_below(&rng, 130);
            n = (unsigned)hk_min(n, slab->free);
            hk_slab_alloc(slab, taken + n, n);
            size_t next = 0;
            for (unsigned i = n; i-- > 0;) {
                while (!free[next])
                    next++;
                assert_int_equal((uintptr_t)taken[i], slab->d.start + next * 64);
                free[next] = false;
            }
        }
        for (size_t i = 0; i < 1024; i++)
            assert_false(free[i]);
        for (size_t i = 0; i < 1024; i++)
            hk_slab_free(slab, (char *)slab->d.start + i * 64);
    }
    hk_slab_release(slab);
}

/* Blocks are allocated from the lowest address up. The array is filled from its end downward, so that a bin pops the blocks in this order. */
UNIT_TEST(take_order)
{
    struct hk_slab *slab = make(CLASS_OF_64);
    void *blocks[200];
    hk_slab_alloc(slab, blocks + 200, 200);
    assert_int_equal(slab->free, slab->d.blocks - 200);
    for (size_t i = 0; i < 200; i++)
        assert_int_equal((uintptr_t)blocks[199 - i], slab->d.start + i * 64);
    hk_slab_free(slab, blocks[150]);
    hk_slab_free(slab, blocks[190]);
    void *again[3];
    hk_slab_alloc(slab, again + 3, 3);
    assert_ptr_equal(again[2], blocks[190]);
    assert_ptr_equal(again[1], blocks[150]);
    assert_int_equal((uintptr_t)again[0], slab->d.start + (size_t)200 * 64);
}

UNIT_TEST(random_load)
{
    static void *taken[1024];
    struct hk_slab *slab = make(CLASS_OF_64);
    struct rng rng = rng_seeded(5);
    size_t count = 0;
    for (int step = 0; step < 20000; step++) {
        size_t n = 1 + rng_below(&rng, 30);
        if (rng_below(&rng, 2) == 0) {
            n = n < slab->free ? n : slab->free;
            hk_slab_alloc(slab, taken + count + n, (unsigned)n);
            count += n;
        } else {
            for (; n > 0 && count > 0; n--) {
                uint32_t i = rng_below(&rng, (uint32_t)count);
                hk_slab_free(slab, taken[i]);
                taken[i] = taken[--count];
            }
        }
        assert_int_equal(slab->free, slab->d.blocks - count);
    }
    uint16_t free = slab->free;
    slab->free = 0;
    hk_slab_recount(slab);
    assert_int_equal(slab->free, free);
    while (count > 0)
        hk_slab_free(slab, taken[--count]);
    hk_slab_release(slab);
}

static void give(void *block) { hk_slab_free(hk_slab_at((uintptr_t)block), block); }

static void assert_gives_die(void *block, const char *what, unsigned size)
{
    char expected[160];
    snprintf(expected, sizeof expected,
             "hakmem: free(), found later: %s: address 0x%lx, class %u bytes, owner 7; HAKMEM_SAFE_FREE=1 ", what,
             (unsigned long)(uintptr_t)block, size);
    unit_dies(give, block, expected);
}

UNIT_TEST(mistakes)
{
    if (UNIT_UNDER_TSAN)
        return;
    struct hk_slab *slab = make(CLASS_OF_1280);
    char *blocks[20];
    hk_slab_alloc(slab, (void **)blocks + 20, 20);
    assert_gives_die(blocks[3] + 1, "pointer inside a block", 1280);
    assert_gives_die(blocks[3] + 16, "pointer inside a block", 1280);
    assert_gives_die(blocks[3] + 1264, "pointer inside a block", 1280);
    /* The address lies after the end of the slab's last block. */
    assert_gives_die((char *)slab->d.start + slab->d.bytes - 16, "pointer inside a block", 1280);
    assert_gives_die((char *)slab->d.start + 51 * 1280, "pointer inside a block", 1280);
    hk_slab_free(slab, blocks[3]);
    assert_gives_die(blocks[3], "block already free", 1280);
    /* Block 30 was never allocated. */
    assert_gives_die((char *)slab->d.start + 30 * 1280, "block already free", 1280);
    assert_gives_die(blocks[3] + 16, "pointer inside a block", 1280);
    give(blocks[4]);
}

UNIT_TEST(cut_small)
{
    if (UNIT_UNDER_TSAN)
        return;
    hk_options.slab_blocks = 5;
    struct hk_slab *slab = make(CLASS_OF_64);
    assert_int_equal(slab->d.blocks, 5);
    assert_gives_die((char *)slab->d.start + 5 * 64, "pointer inside a block", 64);
}

static void count_one(struct hk_descriptor *descriptor, void *count)
{
    (void)descriptor;
    ++*(uint32_t *)count;
}

static uint32_t descriptors_made(void)
{
    uint32_t count = 0;
    hk_descriptors_visit(count_one, &count);
    return count;
}

/* Whichever call the system refuses, a slab that cannot be made keeps no descriptor, bitmap or slices. */
UNIT_TEST(refused)
{
    unit_start();
    hk_slab_release(unit_slab(CLASS_OF_64, OWNER));
    while (unit_slab(HK_CLASSES - 1, OWNER) != NULL && descriptors_made() < 40)
        continue;
    uint32_t descriptors = descriptors_made();
    fake_os_refuse(fake_refuse_all);
    while (unit_slab(HK_CLASSES - 1, OWNER) != NULL)
        descriptors++;
    struct hk_page_heap_totals before = hk_page_heap_total();
    for (int i = 0; i < 100; i++)
        assert_null(unit_slab(HK_CLASSES - 1, OWNER));
    struct hk_page_heap_totals after = hk_page_heap_total();
    assert_memory_equal(&before, &after, sizeof before);
    assert_true(descriptors_made() <= descriptors + 1);
    fake_os_refuse(NULL);
    assert_non_null(unit_slab(HK_CLASSES - 1, OWNER));
}

UNIT_TEST(leaves_no_metadata)
{
    unit_start();
    hk_slab_release(unit_slab(CLASS_OF_16, 1));
    size_t unused = hk_meta_unused(), mapped = hk_meta_mapped();
    for (int i = 0; i < 500; i++)
        hk_slab_release(unit_slab(CLASS_OF_16, 1));
    assert_int_equal(hk_meta_unused(), unused);
    assert_int_equal(hk_meta_mapped(), mapped);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_class),        cmocka_unit_test(take_order), cmocka_unit_test(random_load),
        cmocka_unit_test(mistakes),           cmocka_unit_test(cut_small),  cmocka_unit_test(refused),
        cmocka_unit_test(leaves_no_metadata), cmocka_unit_test(division),   cmocka_unit_test(lowest_leave),
    };
    return cmocka_run_group_tests_name("slab", tests, NULL, NULL);
}
