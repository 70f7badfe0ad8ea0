/* Tests whether huge pages count as available, and which pages the heap asks for, for each setting in the system's files. */
#include "unit/unit.h"

#include <stdio.h>
#include <string.h>

#include "policy/options.h"
#include "span/chunks.h"
#include "span/footprint.h"
#include "span/page_heap.h"
#include "support/knobs.h"

#define FOLDER "/sys/kernel/mm/transparent_hugepage/"
#define ALWAYS "[always] inherit madvise never\n"
#define INHERIT "always [inherit] madvise never\n"
#define MADVISE "always inherit [madvise] never\n"
#define NEVER "always inherit madvise [never]\n"
#define ALL_ALWAYS "[always] madvise never\n"
#define ALL_MADVISE "always [madvise] never\n"
#define ALL_NEVER "always madvise [never]\n"

/* A file whose text is NULL does not exist. */
static void set_files(const char *all, const char *huge, const char *folios)
{
    static struct fake_file files[4];
    const struct fake_file wanted[] = {
        {FOLDER "enabled", all}, {FOLDER "hugepages-2048kB/enabled", huge}, {FOLDER "hugepages-64kB/enabled", folios}};
    unsigned count = 0;
    for (unsigned i = 0; i < 3; i++)
        if (wanted[i].text != NULL)
            files[count++] = wanted[i];
    files[count] = (struct fake_file){NULL, NULL};
    fake_os.files = files;
}

static bool serves(const char *all, const char *huge)
{
    set_files(all, huge, NULL);
    hk_thp_look();
    return hk_thp_serves();
}

UNIT_TEST(modes)
{
    assert_true(serves(ALL_MADVISE, NULL));
    assert_true(serves(ALL_ALWAYS, NULL));
    assert_false(serves(ALL_NEVER, NULL));
}

/* The file of a size overrides the file of all sizes, unless it says `inherit`. */
UNIT_TEST(modes_of_the_size)
{
    assert_true(serves(ALL_MADVISE, INHERIT));
    assert_false(serves(ALL_NEVER, INHERIT));
    assert_false(serves(ALL_ALWAYS, NEVER));
    assert_true(serves(ALL_NEVER, MADVISE));
    assert_true(serves(ALL_NEVER, ALWAYS));
}

static size_t coarse_page(void) { return 1 << 14; }

/* On a system with larger pages, huge pages are larger than a chunk. */
UNIT_TEST(sizes)
{
    hk_os.page_size = coarse_page;
    (void)hk_read_system_page();
    assert_false(serves(ALL_ALWAYS, ALWAYS));
    assert_false(serves(NULL, NULL));
}

/* If the files do not exist, huge pages count as available, because the advice has no effect then. */
UNIT_TEST(no_files)
{
    assert_true(serves(NULL, NULL));
    assert_true(serves("", ""));
}

/* A program may read the settings before it forbids the system calls that read them. No call reads them again. */
UNIT_TEST(read_once)
{
    assert_true(serves(ALL_MADVISE, INHERIT));
    set_files(ALL_NEVER, NEVER, NULL);
    assert_true(hk_thp_serves());
}

/* The calls of advise_huge() since the last call of grow(), as text: the first slice, the number of slices, and + for huge pages or - for small ones. */
static char advice[200];
static uintptr_t grown;

static bool note_advice(void *p, size_t size, bool wanted)
{
    size_t used = strlen(advice);
    if (!wanted && size % HK_CHUNK != 0)
        return true; /* a table of the page map, which is mapped if the system chooses the addresses */
    if (grown == 0)
        grown = (uintptr_t)p;
    snprintf(advice + used, sizeof advice - used, "%s%zu:%zu%c", used != 0 ? " " : "",
             ((uintptr_t)p - hk_align_down(grown, HK_CHUNK)) / HK_SLICE, size / HK_SLICE, wanted ? '+' : '-');
    return true;
}

static const char *grow(enum hk_use use, size_t slices)
{
    advice[0] = 0;
    grown = 0;
    assert_true(hk_arena_grow(&hk_page_heap.arenas[use], slices));
    return advice;
}

static const char *grow_dense(void) { return grow(HK_USE_DENSE, HK_CHUNK_SLICES); }

static void start_small_with(const char *all, const char *huge, const char *folios)
{
    assert_true(hk_page_map_init());
    hk_page_heap_init();
    fake_os_refuse(NULL);
    hk_os.advise_huge = note_advice;
    set_files(all, huge, folios);
}

/* Starts a page heap that counts as large enough to read these settings, and as too small for huge pages. */
static void start_with(const char *all, const char *huge, const char *folios)
{
    start_small_with(all, huge, folios);
    SET_KNOB(huge_pages_from, HK_GIB);
    hk_add(hk_footprint.xbig, 4 * HK_MIB);
}

/* The kernel would give a huge page to a chunk that asks for folios as a whole. */
UNIT_TEST(folios_beside_huge_pages)
{
    start_with(ALL_MADVISE, INHERIT, ALWAYS);
    assert_string_equal(grow_dense(), "1:31+");
    assert_string_equal(grow(HK_USE_SPARSE, 1), "0:32-");
    assert_string_equal(grow(HK_USE_DENSE, 2 * HK_CHUNK_SLICES), "1:31+ 33:31+");
}

UNIT_TEST(folios_by_advice)
{
    start_with(ALL_ALWAYS, INHERIT, INHERIT);
    assert_string_equal(grow_dense(), "1:31+");
}

/* A growth by a part of a chunk has a first slice only if it begins the chunk. */
UNIT_TEST(folios_in_parts)
{
    if (UNIT_UNDER_TSAN)
        return;
    start_with(ALL_MADVISE, INHERIT, ALWAYS);
    hk_store(hk_footprint.xscarce, true);
    assert_string_equal(grow(HK_USE_DENSE, 1), "1:3+");
    assert_string_equal(grow(HK_USE_DENSE, 1), "4:4+");
}

UNIT_TEST(folios_without_huge_pages)
{
    start_with(ALL_NEVER, INHERIT, ALWAYS);
    assert_string_equal(grow_dense(), "0:32+");
    assert_string_equal(grow(HK_USE_DENSE, 2 * HK_CHUNK_SLICES), "0:64+");
}

UNIT_TEST(folios_by_advice_without_huge_pages)
{
    start_with(ALL_ALWAYS, NEVER, MADVISE);
    assert_string_equal(grow_dense(), "0:32+");
}

UNIT_TEST(no_folios)
{
    start_with(ALL_ALWAYS, INHERIT, NEVER);
    assert_string_equal(grow_dense(), "0:32-");
}

UNIT_TEST(no_folios_of_all_sizes)
{
    start_with(ALL_NEVER, INHERIT, INHERIT);
    assert_string_equal(grow_dense(), "0:32-");
}

/* Kernels before Linux 6.8 have no files of sizes. */
UNIT_TEST(no_folios_in_old_kernels)
{
    start_with(ALL_ALWAYS, NULL, NULL);
    assert_string_equal(grow_dense(), "0:32-");
}

/* HAKMEM_THP=off sets the knob to 0. */
UNIT_TEST(no_folios_with_the_option)
{
    start_with(ALL_MADVISE, INHERIT, ALWAYS);
    SET_KNOB(huge_pages_from, 0);
    assert_string_equal(grow_dense(), "0:32-");
}

/* Guard pages would split the folios. */
UNIT_TEST(no_folios_beside_guard_pages)
{
    start_with(ALL_MADVISE, INHERIT, ALWAYS);
    hk_page_heap_guarded = true;
    assert_string_equal(grow_dense(), "0:32-");
}

UNIT_TEST(no_folios_of_coarse_pages)
{
    hk_os.page_size = coarse_page;
    (void)hk_read_system_page();
    start_with(ALL_MADVISE, INHERIT, ALWAYS);
    assert_string_equal(grow_dense(), "0:32-");
}

static bool forbids(void) { return true; }

UNIT_TEST(no_folios_if_the_process_forbids_them)
{
    start_with(ALL_MADVISE, INHERIT, ALWAYS);
    hk_os.forbids_huge = forbids;
    assert_string_equal(grow_dense(), "0:32-");
}

UNIT_TEST(huge_pages_instead_of_folios)
{
    start_with(ALL_MADVISE, INHERIT, ALWAYS);
    SET_KNOB(huge_pages_from, 1);
    assert_string_equal(grow_dense(), "0:32+");
}

static size_t no_read(const char *path, char *bytes, size_t size)
{
    (void)path, (void)bytes, (void)size;
    fail();
    return 0;
}

/* A small heap reads no setting. It gets folios if the kernel gives them, and never gets huge pages. */
UNIT_TEST(no_reads_in_a_small_heap)
{
    start_small_with(ALL_ALWAYS, INHERIT, ALWAYS);
    hk_os.read_file = no_read;
    assert_string_equal(grow(HK_USE_SPARSE, 1), "0:32-");
    assert_string_equal(grow_dense(), "1:31+");
    SET_KNOB(huge_pages_from, 0);
    assert_string_equal(grow_dense(), "0:32-");
}

/* A free dense chunk that becomes sparse leaves its folios. */
UNIT_TEST(converted_chunk)
{
    start_with(ALL_MADVISE, INHERIT, ALWAYS);
    grow_dense();
    advice[0] = 0;
    grown = 0;
    uintptr_t at = hk_span_alloc(1, HK_USE_SPARSE, &(bool){false});
    assert_int_equal(hk_page_map_chunk(at)->use, HK_USE_SPARSE);
    assert_string_equal(advice, "0:32-");
}

static unsigned splits;
static void count_split(void *p, size_t size)
{
    (void)p, (void)size;
    splits++;
}

/* Returns how many purges of a range in a new span split pages first. */
static unsigned splits_of(enum hk_use use, size_t from, size_t size)
{
    uintptr_t at = hk_span_alloc(2, use, &(bool){false});
    hk_os.split_huge = count_split;
    splits = 0;
    assert_true(hk_span_purge(at + from, size));
    return splits;
}

/* A purge of whole folios returns them at once. Of a folio that is purged in part, the system would keep all pages. */
UNIT_TEST(purged_folios)
{
    size_t page = hk_system_page();
    start_with(ALL_MADVISE, INHERIT, ALWAYS);
    assert_int_equal(splits_of(HK_USE_DENSE, 0, 2 * HK_SLICE), 0);
    assert_int_equal(splits_of(HK_USE_DENSE, HK_SLICE, HK_SLICE), 0);
    assert_int_equal(splits_of(HK_USE_DENSE, 0, page), 1);
    assert_int_equal(splits_of(HK_USE_DENSE, page, HK_SLICE), 1);
    assert_int_equal(splits_of(HK_USE_SPARSE, 0, page), 0);
}

UNIT_TEST(purged_small_pages)
{
    start_with(ALL_MADVISE, INHERIT, NEVER);
    assert_int_equal(splits_of(HK_USE_DENSE, 0, hk_system_page()), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modes),
        cmocka_unit_test(modes_of_the_size),
        cmocka_unit_test(sizes),
        cmocka_unit_test(no_files),
        cmocka_unit_test(read_once),
        cmocka_unit_test(folios_beside_huge_pages),
        cmocka_unit_test(folios_by_advice),
        cmocka_unit_test(folios_in_parts),
        cmocka_unit_test(folios_without_huge_pages),
        cmocka_unit_test(folios_by_advice_without_huge_pages),
        cmocka_unit_test(no_folios),
        cmocka_unit_test(no_folios_of_all_sizes),
        cmocka_unit_test(no_folios_in_old_kernels),
        cmocka_unit_test(no_folios_with_the_option),
        cmocka_unit_test(no_folios_beside_guard_pages),
        cmocka_unit_test(no_folios_of_coarse_pages),
        cmocka_unit_test(no_folios_if_the_process_forbids_them),
        cmocka_unit_test(huge_pages_instead_of_folios),
        cmocka_unit_test(no_reads_in_a_small_heap),
        cmocka_unit_test(converted_chunk),
        cmocka_unit_test(purged_folios),
        cmocka_unit_test(purged_small_pages),
    };
    return cmocka_run_group_tests_name("thp", tests, NULL, NULL);
}
