/* Tests the core on systems with pages of 4, 16 and 64 KiB. A system call that is not aligned to these pages ends the test. */
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "hakmem.h"
#include "policy/options.h"
#include "report/report.h"
#include "slab/slab_purge.h"
#include "span/meta.h"
#include "span/meta_regions.h"
#include "support/pattern.h"
#include "tcache/tcache.h"

static size_t page;
static struct hk_os fine;
static size_t purges;

static size_t coarse_page_size(void) { return page; }

static void whole(const void *p, size_t size)
{
    if (((uintptr_t)p | size) % page == 0)
        return;
    (void)dprintf(2, "hakmem: test: not in whole pages of %zu bytes: %p, %#zx\n", page, p, size);
    abort();
}

static void *coarse_map(size_t size)
{
    whole(NULL, size);
    char *p = fine.map(size + page);
    if (p == NULL)
        return NULL;
    size_t before = -(uintptr_t)p % page;
    if (before > 0)
        fine.unmap(p, before);
    fine.unmap(p + before + size, page - before);
    return p + before;
}

#define COARSE(result, name, parameters, p, size, arguments)                                                           \
    static result coarse_##name parameters                                                                             \
    {                                                                                                                  \
        whole(p, size);                                                                                                \
        return fine.name arguments;                                                                                    \
    }
COARSE(enum hk_placed, map_at, (void *p, size_t size), p, size, (p, size))
COARSE(bool, unmap, (void *p, size_t size), p, size, (p, size))
COARSE(bool, seal, (void *p, size_t size), p, size, (p, size))
COARSE(bool, unseal, (void *p, size_t size), p, size, (p, size))
COARSE(bool, bar, (void *p, size_t size), p, size, (p, size))
COARSE(bool, unbar, (void *p, size_t size), p, size, (p, size))
COARSE(bool, remap, (void *p, size_t before, size_t size, void *to), (char *)p + (uintptr_t)to, before | size,
       (p, before, size, to))

static bool coarse_purge(void *p, size_t size)
{
    whole(p, size);
    purges++;
    return fine.purge(p, size);
}

static bool coarse_resident(const void *p, size_t size, unsigned char *pages)
{
    unsigned char each[HK_LARGEST_PAGE / HK_PAGE];
    whole(p, size);
    memset(pages, 0, size / page);
    for (size_t at = 0; at < size; at += page) {
        if (!fine.resident((const char *)p + at, page, each))
            return false;
        for (size_t i = 0; i < page / HK_PAGE; i++)
            pages[at / page] |= each[i];
    }
    return true;
}

static void on_pages_of(size_t bytes)
{
    fine = hk_os;
    page = bytes;
    hk_os.page_size = coarse_page_size;
    hk_os.map = coarse_map;
    hk_os.map_at = coarse_map_at;
    hk_os.unmap = coarse_unmap;
    hk_os.seal = coarse_seal;
    hk_os.unseal = coarse_unseal;
    hk_os.purge = coarse_purge;
    hk_os.remap = coarse_remap;
    hk_os.bar = coarse_bar;
    hk_os.unbar = coarse_unbar;
    hk_os.resident = coarse_resident;
    hk_store(hk_xsystem_page, 0);
    assert_int_equal(hk_system_page(), bytes);
}

static bool in_use(const struct hk_slab *slab, uintptr_t start, uintptr_t end)
{
    for (unsigned i = 0; i < slab->d.blocks; i++) {
        uintptr_t block = slab->d.start + (size_t)i * slab->d.block_size;
        bool free = (slab->freebits[i / 64] >> i % 64 & 1) != 0;
        if (!free && block < end && block + slab->d.block_size > start)
            return true;
    }
    return false;
}

/* Frees all blocks of slabs except every 37th. Whole pages lie between two of these if the pages have at most 16 KiB, or if the blocks are large. */
static void purge_slab(unsigned class)
{
    static void *blocks[4096];
    struct hk_slab *slab = unit_slab(class, 7);
    assert_non_null(slab);
    unsigned count = slab->d.blocks;
    hk_slab_alloc(slab, blocks + count, count);
    memset((void *)slab->d.start, 0xa5, slab->d.bytes);
    for (unsigned i = 0; i < count; i++)
        if (hk_slab_index(slab, (uintptr_t)blocks[i]) % 37 != 3)
            hk_slab_free(slab, blocks[i]);
    struct hk_trim trim = hk_trim_begin();
    while (!hk_slab_trim(slab, &trim))
        continue;
    for (uintptr_t at = slab->d.start; at < slab->d.start + slab->d.bytes; at += page) {
        int expected = in_use(slab, at, at + page) ? 0xa5 : 0;
        assert_int_equal(*(unsigned char *)at, expected);
        assert_int_equal(*(unsigned char *)(at + page - 1), expected);
    }
}

static void slabs(size_t bytes)
{
    on_pages_of(bytes);
    unit_start();
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        purge_slab(class);
    assert_true(purges > 0);
}
UNIT_TEST(slabs_4) { slabs(4096); }
UNIT_TEST(slabs_16) { slabs(16384); }
UNIT_TEST(slabs_64) { slabs(65536); }

enum { MANY = 6000, KEPT = 40 };

static size_t size_of(unsigned i) { return i % 50 == 0 ? 9000 : 64 + i % 7 * 100; }

/* Tests that a purge of metadata changes no data in use, and that purged metadata is zero when it is allocated again. */
static void metadata(size_t bytes)
{
    static char *many[MANY];
    on_pages_of(bytes);
    unit_start();
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < MANY; i++)
            if (many[i] == NULL) {
                many[i] = hk_meta_alloc(size_of(i));
                for (size_t at = 0; at < size_of(i); at++)
                    assert_int_equal(many[i][at], 0);
                pattern_fill(many[i], size_of(i), i);
            }
        for (unsigned i = 0; i < MANY; i++)
            if (i % KEPT != round) {
                hk_meta_free(many[i], size_of(i));
                many[i] = NULL;
            }
        hk_meta_purge(true);
        for (unsigned i = 0; i < MANY; i++)
            assert_true(many[i] == NULL || pattern_holds(many[i], size_of(i), i));
        assert_true(hk_meta_spare() + hk_meta_unused() <= 2 * hk_meta_mapped());
    }
    char *own = hk_meta_pages(100);
    assert_int_equal((uintptr_t)own % page, 0);
    own[99] = 1;
    assert_true(hk_meta_rest(own, page));
    assert_int_equal(own[99], 0);
}
UNIT_TEST(metadata_4) { metadata(4096); }
UNIT_TEST(metadata_16) { metadata(16384); }
UNIT_TEST(metadata_64) { metadata(65536); }

/* Resizes, frees, caches and trims large blocks. A report in between examines each page. */
static void large_blocks(size_t bytes)
{
    static struct hk_report report;
    on_pages_of(bytes);
    unit_start();
    char *block = hak_malloc((2 << 20) + 100), *aligned = hak_aligned_alloc((size_t)1 << 20, (3 << 20) + 5);
    assert_int_equal(hak_malloc_usable_size(block) % page, 0);
    memset(block, 7, (2 << 20) + 100);
    memset(aligned, 8, (3 << 20) + 5);
    block = hak_realloc(block, (9 << 20) + 1);
    assert_int_equal(block[(2 << 20) + 99], 7);
    hk_report_take(&report, 0);
    assert_true(report.rss_stats.all.parts[HK_PART_large_live] >= 5 * HK_MIB);
    block = hak_realloc(block, (2 << 20) - 9999);
    hak_free(block);
    hak_free(aligned);
    hak_malloc_trim(0);
    assert_int_equal((uintptr_t)hak_valloc(1) % page, 0);
    char *pages = hak_pvalloc(page + 1);
    assert_int_equal((uintptr_t)pages % page, 0);
    assert_true(hak_malloc_usable_size(pages) >= 2 * page);
}
UNIT_TEST(large_blocks_4) { large_blocks(4096); }
UNIT_TEST(large_blocks_16) { large_blocks(16384); }
UNIT_TEST(large_blocks_64) { large_blocks(65536); }

/* Tests everything that the guard protects, in blocks of all sizes. */
static void hardened(size_t bytes)
{
    on_pages_of(bytes);
    hk_options.hardened = "1";
    unit_start();
    for (size_t size = 1; size < (size_t)4 << 20; size += 1 + size / 3) {
        char *block = hak_malloc(size);
        memset(block, 1, size);
        block = hak_realloc(block, size + size / 2);
        assert_int_equal(block[size - 1], 1);
        hak_free(block);
    }
    hak_malloc_trim(0);
}
UNIT_TEST(hardened_4) { hardened(4096); }
UNIT_TEST(hardened_16) { hardened(16384); }
UNIT_TEST(hardened_64) { hardened(65536); }

/* Makes the core assume that the system's pages are smaller than they are. A call that is not aligned must then end the test (negative control). */
static void think_of_less(void *argument)
{
    (void)argument;
    on_pages_of(65536);
    hk_store(hk_xsystem_page, HK_PAGE);
    unit_start();
    purge_slab(CLASS_OF_4096);
}
UNIT_TEST(control) { unit_dies(think_of_less, NULL, "hakmem: test: not in whole pages of 65536 bytes"); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slabs_4),        cmocka_unit_test(slabs_16),        cmocka_unit_test(slabs_64),
        cmocka_unit_test(metadata_4),     cmocka_unit_test(metadata_16),     cmocka_unit_test(metadata_64),
        cmocka_unit_test(large_blocks_4), cmocka_unit_test(large_blocks_16), cmocka_unit_test(large_blocks_64),
        cmocka_unit_test(hardened_4),     cmocka_unit_test(hardened_16),     cmocka_unit_test(hardened_64),
        cmocka_unit_test(control),
    };
    return cmocka_run_group_tests_name("system_pages", tests, NULL, NULL);
}
