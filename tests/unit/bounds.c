/* Tests that hk_block_bounds() finds the block that contains an address, in slabs and mappings, and at every edge. The inline fast check must
 * agree with the full search. No call may wait for a lock. */
#include "unit/unit.h"

#include <string.h>
#include <sys/mman.h>

#include "large/large.h"
#include "guard/bounds.h"
#include "hakmem.h"
#include "policy/options.h"
#include "slab/joined_blocks.h"
#include "slab/slab.h"

enum { OWNER = 7, BLOCKS = 1024, SIZE = 64 };

static void *blocks[BLOCKS];

/* Returns a slab of 64-byte blocks that are all taken. blocks[i] is block number i. */
static struct hk_slab *full_slab(void)
{
    struct hk_slab *slab = unit_slab(CLASS_OF_64, OWNER);
    assert_non_null(slab);
    hk_slab_alloc(slab, blocks + BLOCKS, BLOCKS);
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = (void *)(slab->d.start + i * (size_t)SIZE);
    return slab;
}

static void expect(uintptr_t address, enum hk_bounds_kind kind, uintptr_t start, size_t size)
{
    struct hk_bounds bounds = hk_block_bounds(address);
    assert_int_equal(bounds.kind, kind);
    assert_int_equal(bounds.start, start);
    assert_int_equal(bounds.size, size);
}

/* Checks that the inline check returns the number of bytes from the address to the end of its block. */
static void expect_room(uintptr_t address, size_t room) { assert_int_equal(hk_bounds_room(address), room); }

UNIT_TEST(every_byte_of_a_slab)
{
    if (UNIT_UNDER_TSAN)
        return; /* The inline check finds no block because the heap lies outside the window. */
    unit_start();
    struct hk_slab *slab = full_slab();
    for (size_t offset = 0; offset < (size_t)slab->d.blocks * slab->d.block_size; offset++) {
        size_t into = offset % SIZE;
        expect(slab->d.start + offset, HK_BOUNDS_BLOCK, slab->d.start + offset - into, SIZE);
        expect_room(slab->d.start + offset, SIZE - into);
    }
}

UNIT_TEST(free_blocks)
{
    if (UNIT_UNDER_TSAN)
        return; /* The inline check finds no block because the heap lies outside the window. */
    unit_start();
    struct hk_slab *slab = full_slab();
    for (unsigned i = 0; i < BLOCKS; i += 3)
        hk_slab_free(slab, blocks[i]);
    for (unsigned i = 0; i < BLOCKS; i++) {
        uintptr_t start = (uintptr_t)blocks[i];
        expect(start + 5, i % 3 == 0 ? HK_BOUNDS_FREE : HK_BOUNDS_BLOCK, start, SIZE);
        expect_room(start + 5, i % 3 == 0 ? 0 : SIZE - 5);
    }
}

/* Tests addresses after the end of a slab's last block. The blocks of this class do not fill the span. */
UNIT_TEST(tail)
{
    if (UNIT_UNDER_TSAN)
        return; /* The inline check finds no block because the heap lies outside the window. */
    void *block;
    unit_start();
    struct hk_slab *slab = unit_slab(CLASS_OF_48, OWNER);
    while (slab->free > 0)
        hk_slab_alloc(slab, &block + 1, 1);
    uintptr_t end = slab->d.start + (size_t)slab->d.blocks * slab->d.block_size;
    assert_true(end < slab->d.start + slab->d.bytes);
    expect(end - 1, HK_BOUNDS_BLOCK, end - 48, 48);
    expect_room(end - 1, 1);
    expect(end, HK_BOUNDS_FREE, end, 0);
    expect_room(end, 0);
}

UNIT_TEST(joined_blocks)
{
    void *joined_block[2];
    unit_start();
    struct hk_slab *slab = full_slab();
    for (unsigned i = 62; i < 70; i++)
        hk_slab_free(slab, blocks[i]);
    assert_int_equal(hk_joined_take(slab, 3, joined_block + 2, 2), 2);
    for (size_t into = 0; into < 3 * (size_t)SIZE; into++) {
        expect((uintptr_t)blocks[62] + into, HK_BOUNDS_BLOCK, (uintptr_t)blocks[62], 3 * SIZE);
        expect((uintptr_t)blocks[65] + into, HK_BOUNDS_BLOCK, (uintptr_t)blocks[65], 3 * SIZE);
        expect_room((uintptr_t)blocks[62] + into, 0);
    }
    expect((uintptr_t)blocks[68], HK_BOUNDS_FREE, (uintptr_t)blocks[68], SIZE);
    expect((uintptr_t)blocks[70] + 1, HK_BOUNDS_BLOCK, (uintptr_t)blocks[70], SIZE);
    hk_slab_free(slab, blocks[62]);
    expect((uintptr_t)blocks[63], HK_BOUNDS_FREE, (uintptr_t)blocks[63], SIZE);
    expect((uintptr_t)blocks[66], HK_BOUNDS_BLOCK, (uintptr_t)blocks[65], 3 * SIZE);
}

static char *large(size_t size)
{
    char *block = hak_malloc(size);
    assert_non_null(block);
    return block;
}

static void expect_large(const char *block, size_t at, size_t size)
{
    expect((uintptr_t)block + at, HK_BOUNDS_BLOCK, (uintptr_t)block, size);
}

/* Each address is looked up twice because the first answer is remembered. A remembered answer must not be used after the block's size has changed. */
UNIT_TEST(large_blocks)
{
    if (UNIT_UNDER_TSAN)
        return; /* The inline check finds no block because the heap lies outside the window. */
    unit_start();
    char *block = large(8 * HK_MIB), *other = large(3 * HK_MIB);
    assert_int_equal(hk_bounds_remembered((uintptr_t)block), 0);
    for (int round = 0; round < 2; round++)
        for (size_t at = 0; at < 8 * HK_MIB; at += 12345) {
            expect_large(block, at, 8 * HK_MIB);
            assert_int_equal(hk_bounds_remembered((uintptr_t)block + at), 8 * HK_MIB - at);
        }
    expect_large(block, 8 * HK_MIB - 1, 8 * HK_MIB);
    expect_large(other, 3 * HK_MIB - 1, 3 * HK_MIB);
    expect_room((uintptr_t)block + 5 * HK_MIB, 0);
    block = hak_realloc(block, 3 * HK_MIB);
    assert_int_equal(hk_block_bounds((uintptr_t)block + 6 * HK_MIB).size == 8 * HK_MIB, false);
    expect_large(block, 2 * HK_MIB, 3 * HK_MIB);
    block = hak_realloc(block, 40 * HK_MIB);
    expect_large(block, 6 * HK_MIB, 40 * HK_MIB);
    expect_large(block, 40 * HK_MIB - 1, 40 * HK_MIB);
    hak_free(block);
    assert_int_equal(hk_block_bounds((uintptr_t)block + 6 * HK_MIB).kind == HK_BOUNDS_BLOCK, false);
    expect_large(other, 2 * HK_MIB, 3 * HK_MIB);
}

/* Tests addresses in a cached block, and in the slack of a block that is longer than the request. */
UNIT_TEST(slack)
{
    unit_start();
    char *block = large(4 * HK_MIB);
    hak_free(block);
    expect((uintptr_t)block + HK_MIB, HK_BOUNDS_FREE, (uintptr_t)block, 4 * HK_MIB);
    assert_ptr_equal(large(3 * HK_MIB), block);
    expect_large(block, 3 * HK_MIB + 5, 3 * HK_MIB);
    expect_large(block, 3 * HK_MIB - 1, 3 * HK_MIB);
}

static bool lies_in(const struct hk_bounds *gap, const char *block)
{
    return (uintptr_t)block - gap->start < gap->size;
}

/* Tests addresses in the gap between two large blocks. A thread's stack, for example, may lie in the gap. The second look-up of a gap needs no
 * lock. The gap is forgotten when a block is mapped into it. */
UNIT_TEST(gaps)
{
    unit_start();
    char *high = large(2 * HK_MIB), *between = large(6 * HK_MIB), *low = large(2 * HK_MIB);
    hak_free(between);
    hk_large_purge(0, 0, SIZE_MAX);
    struct hk_bounds gap = hk_block_bounds((uintptr_t)between);
    assert_int_equal(gap.kind, HK_BOUNDS_UNKNOWN);
    assert_true(lies_in(&gap, between) && lies_in(&gap, between + 6 * HK_MIB - 1));
    assert_false(lies_in(&gap, high) || lies_in(&gap, low));
    hk_lock(&hk_large.lock);
    expect((uintptr_t)between, HK_BOUNDS_UNKNOWN, gap.start, gap.size);
    hk_unlock(&hk_large.lock);
    for (size_t at = 0; at < 6 * HK_MIB; at += HK_MIB)
        expect((uintptr_t)between + at, HK_BOUNDS_UNKNOWN, gap.start, gap.size);
    char *block = NULL;
    for (int i = 0; i < 64 && (block == NULL || !lies_in(&gap, block)); i++)
        block = large(3 * HK_MIB);
    assert_true(lies_in(&gap, block));
    for (size_t at = 0; at < 3 * HK_MIB; at += HK_MIB)
        expect_large(block, at, 3 * HK_MIB);
}

/* Simulates a signal handler that interrupts the holder of the lock. */
UNIT_TEST(without_the_lock)
{
    unit_start();
    char *block = large(8 * HK_MIB);
    expect_large(block, 4 * HK_MIB, 8 * HK_MIB);
    hk_lock(&hk_large.lock);
    expect_large(block, 4 * HK_MIB, 8 * HK_MIB);
    expect((uintptr_t)block + 6 * HK_MIB, HK_BOUNDS_UNKNOWN, (uintptr_t)block + 6 * HK_MIB, 0);
    hk_unlock(&hk_large.lock);
    expect_large(block, 6 * HK_MIB, 8 * HK_MIB);
}

UNIT_TEST(free_slices_and_foreign_memory)
{
    if (UNIT_UNDER_TSAN)
        return; /* The inline check finds no block because the heap lies outside the window. */
    char here[16];
    unit_start();
    struct hk_slab *slab = full_slab();
    uintptr_t start = slab->d.start;
    for (unsigned i = 0; i < BLOCKS; i++)
        hk_slab_free(slab, blocks[i]);
    hk_slab_release(slab);
    expect(start + 100, HK_BOUNDS_FREE, start + 100, 0);
    expect_room(start + 100, 0);
    char *block = large(2 * HK_MIB);
    const uintptr_t foreign[] = {(uintptr_t)here,
                                 (uintptr_t) "text",
                                 0,
                                 UINTPTR_MAX,
                                 (uintptr_t)1 << 47,
                                 hk_window_first() - 1,
                                 hk_window.base + hk_window.covered - 1,
                                 (uintptr_t)block - 1};
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        assert_int_equal(hk_block_bounds(foreign[i]).kind, HK_BOUNDS_UNKNOWN);
    expect_room((uintptr_t)here, SIZE_MAX);
    expect_room(0, hk_load(hk_large.xlowest));
    expect_room(UINTPTR_MAX, SIZE_MAX);
}

/* While the guard is on, the bounds of a block end at its requested size. A freed block counts as free even while the quarantine or a bin holds
 * it. */
static void guarded(const char *words, size_t usable)
{
    hk_options.hardened = words;
    unit_start();
    char *block = hak_malloc(100), *freed = hak_malloc(100);
    hak_free(freed);
    expect((uintptr_t)block + 60, HK_BOUNDS_BLOCK, (uintptr_t)block, usable);
    struct hk_bounds bounds = hk_block_bounds((uintptr_t)freed + 60);
    assert_int_equal(bounds.kind, HK_BOUNDS_FREE);
    assert_int_equal(bounds.start, (uintptr_t)freed);
    if (!UNIT_UNDER_TSAN) {
        expect_room((uintptr_t)block + 60, usable - 60);
        expect_room((uintptr_t)block + 111, usable > 111 ? usable - 111 : 0);
        expect_room((uintptr_t)freed + 60, 0);
    }
}

UNIT_TEST(without_canaries) { guarded("zero", 112); }
UNIT_TEST(with_canaries) { guarded("canary", 100); }
UNIT_TEST(in_quarantine) { guarded("canary,quarantine,pages", 100); }

/* The requested size cannot be read from an overwritten canary, so the bounds end at the usable size. The guard reports the damage when the block
 * is freed. */
UNIT_TEST(broken_canary)
{
    hk_options.hardened = "canary";
    unit_start();
    volatile char *block = hak_malloc(104);
    HK_FORGET(block);
    block[104] ^= 1;
    expect((uintptr_t)block, HK_BOUNDS_BLOCK, (uintptr_t)block, 112);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_of_a_slab),
        cmocka_unit_test(free_blocks),
        cmocka_unit_test(tail),
        cmocka_unit_test(joined_blocks),
        cmocka_unit_test(large_blocks),
        cmocka_unit_test(slack),
        cmocka_unit_test(gaps),
        cmocka_unit_test(without_the_lock),
        cmocka_unit_test(free_slices_and_foreign_memory),
        cmocka_unit_test(without_canaries),
        cmocka_unit_test(with_canaries),
        cmocka_unit_test(in_quarantine),
        cmocka_unit_test(broken_canary),
    };
    return cmocka_run_group_tests_name("bounds", tests, NULL, NULL);
}
