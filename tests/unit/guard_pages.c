/* Tests which ranges fault if the option asks for guard pages. These ranges are the page after a slab or a medium block, free spans, free medium
 * and large blocks, and both ends of metadata. Nothing else may fault. */
#include "unit/unit.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "guard/states.h"
#include "hakmem.h"
#include "policy/options.h"
#include "slab/slab.h"
#include "span/chunks.h"
#include "span/meta.h"
#include "span/meta_regions.h"
#include "tcache/tcache.h"

enum { BLOCKS = 40, LARGE_FROM = 131072, ROUNDS = 50 };

static void start(const char *words)
{
    hk_options.hardened = words;
    unit_start();
}

/* Returns true if the byte can be read. Uses a system call, which returns an error if the address would fault. */
static bool accessible(const void *at)
{
    char byte;
    struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)at, 1};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1;
}

UNIT_TEST(behind_a_slab)
{
    start("pages");
    for (size_t size = 16; size <= 32768; size *= 2) {
        char *block = hak_malloc(size - 8);
        const struct hk_slab *slab = hk_slab_at((uintptr_t)block);
        const char *end = (const char *)slab->d.start + slab->d.bytes;
        const char *blocks_end = (const char *)slab->d.start + (size_t)slab->d.blocks * slab->d.block_size;
        assert_false(accessible(end - 1) || accessible(end - HK_PAGE));
        assert_true(accessible(end - HK_PAGE - 1));
        assert_true(blocks_end <= end - HK_PAGE);
        assert_true(accessible(blocks_end - 1));
        hak_free(block);
    }
}

static char *end_of(char *block, size_t size) { return block + (size + 8 + HK_PAGE - 1) / HK_PAGE * HK_PAGE; }

/* Each block of a class of 128 KiB or more has a guard page after its end, also if its neighbors are in use. */
UNIT_TEST(behind_a_large_block)
{
    char *blocks[8];
    start("pages");
    for (size_t size = LARGE_FROM - HK_PAGE - 7; size < (size_t)3 << 20; size += 1 + size / 100) {
        for (unsigned i = 0; i < 8; i++)
            memset(blocks[i] = hak_malloc(size), 1, size);
        for (unsigned i = 0; i < 8; i++)
            if (accessible(end_of(blocks[i], size)))
                fail_msg("the page behind a block of %zu bytes", size);
        for (unsigned i = 0; i < 8; i++) {
            hak_free(blocks[i]);
            assert_false(accessible(blocks[i]) || accessible(end_of(blocks[i], size) - HK_PAGE));
        }
    }
}

UNIT_TEST(large_blocks_that_are_free)
{
    start("1");
    char *block = hak_malloc((size_t)3 << 20);
    memset(block, 1, (size_t)3 << 20);
    hak_free(block);
    assert_false(accessible(block) || accessible(block + (2 << 20)));
}

/* A free span faults at both ends and in the middle. Memory that is allocated from it again is zero. */
UNIT_TEST(free_spans)
{
    static char *blocks[BLOCKS];
    enum { SIZE = 100000 };
    start("pages");
    for (unsigned i = 0; i < BLOCKS; i++)
        memset(blocks[i] = hak_malloc(SIZE), 0x6b, SIZE);
    for (unsigned i = 0; i < BLOCKS; i += 2) /* Every other span stays in use, so that free spans do not merge. */
        hak_free(blocks[i]);
    hk_tcache_trim(hk_tcache_self());
    for (unsigned i = 0; i < BLOCKS; i += 2)
        assert_false(accessible(blocks[i]) || accessible(blocks[i] + SIZE / 2) || accessible(blocks[i] + SIZE - 1));
    for (unsigned i = 0; i < BLOCKS; i += 2) {
        blocks[i] = hak_calloc(1, SIZE);
        for (unsigned at = 0; at < SIZE; at += 100)
            assert_int_equal(blocks[i][at], 0);
    }
}

UNIT_TEST(around_metadata)
{
    start("metadata");
    const struct hk_region *first = hk_meta.newest;
    while (hk_meta.newest == first)
        assert_non_null(hk_meta_alloc(4096));
    const struct hk_meta_area *area = hk_meta.newest->first;
    /* The areas of a region are aligned. The region's mapping begins before the first area and ends after the last. */
    const char *low = (const char *)area, *high = (const char *)area + hk_meta.newest->areas * HK_META_AREA_BYTES;
    assert_true(accessible(low) && accessible(high - 1));
    for (unsigned pages = 0; accessible(low - 1); low -= HK_PAGE, pages++)
        assert_true(pages < HK_META_AREA_BYTES / HK_PAGE);
    for (unsigned pages = 0; accessible(high); high += HK_PAGE, pages++)
        assert_true(pages < HK_META_AREA_BYTES / HK_PAGE);
    assert_int_equal((size_t)(high - low) % HK_META_AREA_BYTES, 0); /* Only whole areas lie between the guard pages. */
}

UNIT_TEST(off)
{
    start("canary,zero,neighbors");
    assert_false(hk_page_heap_guarded);
    char *block = hak_malloc(100);
    const struct hk_slab *slab = hk_slab_at((uintptr_t)block);
    assert_true(accessible((const char *)slab->d.start + slab->d.bytes - 1));
    assert_int_equal(fake_os_calls(FAKE_BAR), 0);
}

/* If the system refuses the pages of a medium block, the block is not lost, and the program does not get it. */
UNIT_TEST(refused)
{
    unsigned refused = 0;
    start("pages");
    for (int round = 0; round < ROUNDS; round++) {
        char *block = hak_malloc(2 * LARGE_FROM);
        hak_free(block);
        fake_os_refuse(fake_refuse_unbar);
        char *other = hak_malloc(2 * LARGE_FROM);
        refused += other == NULL;
        if (other == NULL)
            assert_int_equal(hk_load(*hk_state_at((uintptr_t)block)) & HK_STATE_LIVE, 0);
        fake_os_refuse(NULL);
        hak_free(other);
    }
    assert_true(refused > 0);
    hak_malloc_trim(0);
    unit_heap_holds(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(behind_a_slab),
        cmocka_unit_test(behind_a_large_block),
        cmocka_unit_test(large_blocks_that_are_free),
        cmocka_unit_test(free_spans),
        cmocka_unit_test(around_metadata),
        cmocka_unit_test(off),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
