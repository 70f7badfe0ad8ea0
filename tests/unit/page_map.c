/* Tests look-ups in the page map inside and outside the window, and a start for which the system refuses memory. */
#include "unit/unit.h"

#include <sys/mman.h>

#include "count/stats.h"
#include "hakmem.h"
#include "span/page_map.h"

#define TOP ((uintptr_t)1 << HK_ADDRESS_BITS)

static struct hk_descriptor *descriptor(uintptr_t number) { return (struct hk_descriptor *)(number * HK_CACHE_LINE); }

static void assign_and_look_up(uintptr_t at)
{
    assert_int_equal(hk_page_map_lookup(at), 0);
    assert_true(hk_page_map_cover(at, 30 * HK_SLICE));
    hk_page_map_assign(at, 30, 0x123420, descriptor(99));
    assert_int_equal(hk_page_map_lookup(at - 1), 0);
    for (size_t i = 0; i < 30; i++) {
        assert_int_equal(hk_page_map_lookup(at + i * HK_SLICE), 0x123420);
        assert_int_equal(hk_page_map_lookup(at + (i + 1) * HK_SLICE - 1), 0x123420);
        assert_ptr_equal(hk_load(*hk_page_map_descriptor(at + i * HK_SLICE)), descriptor(99));
    }
    assert_int_equal(hk_page_map_lookup(at + 30 * HK_SLICE), 0);
    assert_ptr_not_equal(hk_page_map_chunk(at), hk_page_map_chunk(at + 29 * HK_SLICE));
    hk_page_map_set(at + HK_SLICE, 28, 0);
    assert_int_equal(hk_page_map_lookup(at), 0x123420);
    assert_int_equal(hk_page_map_lookup(at + HK_SLICE), 0);
    assert_int_equal(hk_page_map_lookup(at + 29 * HK_SLICE), 0x123420);
    hk_page_map_set(at, 30, 0);
}

/* Assigns entries in the middle of a chunk, then across the border of two leaves. */
static void assign_around(uintptr_t leaf)
{
    assign_and_look_up(leaf + HK_CHUNK + 7 * HK_SLICE);
    assign_and_look_up(leaf + HK_LEAF - 3 * HK_SLICE);
}

static void expect_no_entries(void)
{
    static const uintptr_t anywhere[] = {0,       1,   4096,    0x400000,           TOP / 2,
                                         TOP - 1, TOP, TOP + 1, (uintptr_t)1 << 63, UINTPTR_MAX};
    for (size_t i = 0; i < sizeof anywhere / sizeof anywhere[0]; i++)
        assert_int_equal(hk_page_map_lookup(anywhere[i]), 0);
    assert_int_equal(hk_page_map_lookup((uintptr_t)&hk_window), 0);
    assert_true(hk_page_map_cover(TOP - HK_SLICE, HK_SLICE));
    assert_false(hk_page_map_cover(TOP - HK_SLICE, 2 * HK_SLICE));
    assert_false(hk_page_map_cover(TOP, 1));
    assert_false(hk_page_map_cover(UINTPTR_MAX - 4095, 4096));
}

/* Checks that look-ups by the window and by the root table find the same entry. If the window is flat, the root must have no entry, so that no
 * page of the root becomes resident. */
static void window_agrees(uintptr_t address)
{
    assert_true(address - hk_window.base < hk_window.covered);
    assert_true(hk_page_map_next_covered(address) == address);
    if (hk_window.flat == 0) {
        assert_ptr_equal(&hk_window.entries[(address - hk_window.base) >> HK_SLICE_SHIFT],
                         hk_page_map_entry_by_root(address));
        assert_ptr_equal(hk_page_map_chunk(address),
                         &hk_page_map_leaf(address)->chunks[address / HK_CHUNK % HK_LEAF_CHUNKS]);
    } else {
        assert_null(hk_page_map_entry_by_root(address));
        assert_ptr_equal(hk_page_map_chunk(address), &hk_window.chunks[(address - hk_window.base) / HK_CHUNK]);
    }
}

UNIT_TEST(window)
{
    if (UNIT_UNDER_TSAN)
        return;
    assert_true(hk_page_map_init());
    assert_int_equal(hk_window.covered, HK_LEAF);
    assert_int_equal(hk_window.hits, 0);
    uintptr_t first = hk_window_first();
    assert_int_equal(first % HK_CHUNK, 0);
    expect_no_entries();
    hk_window_open(true);
    assert_int_equal(hk_window.hits, HK_LEAF);
    assign_and_look_up(first + 7 * HK_SLICE);
    assign_and_look_up(hk_window.base + HK_LEAF - 3 * HK_SLICE);
    window_agrees(first);
    window_agrees(hk_window.base + HK_LEAF);
}

/* The window grows leaf by leaf up to a limit, and also across leaves that were skipped. */
UNIT_TEST(window_grows)
{
    if (UNIT_UNDER_TSAN)
        return;
    assert_true(hk_page_map_init());
    hk_window_open(true);
    assert_true(hk_page_map_cover(hk_window_first(), HK_CHUNK));
    for (size_t leaf = 1; leaf < 300; leaf += leaf < 8 ? 1 : 20) {
        assign_around(hk_window.base + leaf * HK_LEAF);
        window_agrees(hk_window.base + leaf * HK_LEAF);
    }
    size_t covered = hk_window.covered;
    uintptr_t far_off = hk_window.base + covered + 600 * HK_LEAF;
    assign_around(far_off);
    assert_int_equal(hk_window.covered, covered);
    assert_true(hk_page_map_tables() < covered / 1000);
}

/* The system may put a mapping between the base of the window and the first address of the heap. */
UNIT_TEST(below_the_first_address)
{
    if (UNIT_UNDER_TSAN)
        return;
    assert_true(hk_page_map_init());
    hk_window_open(true);
    if (hk_window_first() == hk_window.base)
        return; /* The first address is random, and in few runs nothing lies below it. */
    assert_true(hk_page_map_cover(hk_window_first(), HK_CHUNK));
    size_t tables = hk_page_map_tables();
    assert_true(hk_page_map_cover(hk_window.base, HK_SLICE));
    hk_page_map_assign(hk_window.base, 1, 0x40, descriptor(5));
    hk_page_map_assign(hk_window_first(), 1, 0x60, descriptor(6));
    assert_int_equal(hk_page_map_lookup(hk_window.base), 0x40);
    assert_ptr_equal(hk_load(*hk_page_map_descriptor(hk_window.base)), descriptor(5));
    assert_ptr_equal(hk_load(*hk_page_map_descriptor(hk_window_first())), descriptor(6));
    assert_int_equal(hk_page_map_tables(), tables);
}

/* The entry of an address that the window cannot cover is found by the root table. */
UNIT_TEST(window_stopped)
{
    if (UNIT_UNDER_TSAN)
        return;
    assert_true(hk_page_map_init());
    hk_window_open(true);
    assert_true(hk_page_map_cover(hk_window_first(), HK_CHUNK));
    fake_os.places_taken = true;
    assert_false(hk_page_map_cover(hk_window_first() + HK_LEAF / 3, HK_CHUNK));
    assign_around(hk_window.base + 3 * HK_LEAF);
    assert_int_equal(hk_window.covered, HK_LEAF);
    assert_true(hk_page_map_is_flat(hk_window_first(), HK_CHUNK));
    assert_false(hk_page_map_is_flat(hk_window.base + 3 * HK_LEAF, HK_SLICE));
    assert_false(hk_page_map_is_flat(hk_window.base + HK_LEAF - HK_SLICE, HK_CHUNK));
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_hit_window]), HK_LEAF);
    fake_os.places_taken = false;
    assign_around(hk_window.base + 7 * HK_LEAF);
    assert_int_equal(hk_window.covered, HK_LEAF);
}

/* A leaf far above the window's end has its own tables. The window must not grow over this leaf. */
UNIT_TEST(window_meets_a_leaf_of_its_own)
{
    if (UNIT_UNDER_TSAN)
        return;
    assert_true(hk_page_map_init());
    hk_window_open(true);
    uintptr_t far_off = hk_window.base + 100 * HK_LEAF;
    assert_true(hk_page_map_cover(hk_window_first(), 1));
    assert_true(hk_page_map_cover(far_off, HK_SLICE));
    hk_page_map_assign(far_off, 1, 0x40, descriptor(7));
    for (size_t leaf = 1; leaf < 150; leaf++) {
        uintptr_t at = hk_window.base + leaf * HK_LEAF + 3 * HK_SLICE;
        assert_true(hk_page_map_cover(at, HK_SLICE));
        hk_page_map_assign(at, 1, 0x60, descriptor(leaf));
        assert_int_equal(hk_page_map_lookup(far_off), 0x40);
        assert_ptr_equal(hk_load(*hk_page_map_descriptor(far_off)), descriptor(7));
        assert_int_equal(hk_page_map_lookup(at), 0x60);
        assert_ptr_equal(hk_load(*hk_page_map_descriptor(at)), descriptor(leaf));
    }
    assert_int_equal(hk_window.covered, 100 * HK_LEAF);
}

/* Tests a heap of 1 TiB that lies partly in the window. */
UNIT_TEST(a_tebibyte)
{
    if (UNIT_UNDER_TSAN)
        return;
    assert_true(hk_page_map_init());
    hk_window_open(true);
    for (uintptr_t at = hk_window_first(); at < hk_window_first() + 1024 * HK_GIB; at += HK_GIB) {
        assert_true(hk_page_map_cover(at, HK_SLICE));
        hk_page_map_assign(at, 1, 0x40, descriptor(at / HK_GIB));
    }
    for (uintptr_t at = hk_window_first(); at < hk_window_first() + 1024 * HK_GIB; at += HK_GIB) {
        assert_ptr_equal(hk_load(*hk_page_map_descriptor(at)), descriptor(at / HK_GIB));
        window_agrees(at);
    }
}

static bool has_mark(uintptr_t at)
{
    _Atomic uint8_t *mark;
    return hk_page_map_has_mark(at, &mark);
}

static void write_and_read_marks(uintptr_t from, uintptr_t to)
{
    enum { STEP = 24 * HK_KIB };
    _Atomic uint8_t *mark;
    for (uintptr_t at = from; at < to; at += STEP) {
        assert_true(hk_page_map_has_mark(at, &mark));
        assert_int_equal(hk_load(*mark), 0);
        hk_store(*mark, (uint8_t)(at / STEP | 1));
    }
    for (uintptr_t at = from; at < to; at += STEP) {
        assert_true(hk_page_map_has_mark(at + HK_KIB - 1, &mark));
        assert_int_equal(hk_load(*mark), (uint8_t)(at / STEP | 1));
    }
}

/* The table of marks has a byte for each page of the heap. It must not overlap the tables of page map entries and chunks. */
UNIT_TEST(marks)
{
    if (UNIT_UNDER_TSAN)
        return;
    assert_true(hk_page_map_init());
    uintptr_t first = hk_window_first(), far = first + 3 * HK_GIB;
    assert_true(hk_page_map_cover(first, HK_CHUNK));
    assert_false(has_mark(first)); /* The window is shut. */
    hk_window_open(true);
    hk_page_map_cover_marks(first, HK_CHUNK);
    assert_true(has_mark(first));
    assert_true(has_mark(first + HK_CHUNK - 1));
    assert_false(has_mark(far));
    assert_true(hk_page_map_cover(far, HK_CHUNK));
    assert_false(has_mark(far));
    hk_page_map_cover_marks(far, HK_CHUNK);
    assert_true(has_mark(far));
    write_and_read_marks(first, far + HK_CHUNK);
    assign_and_look_up(first + 7 * HK_SLICE);
    assign_and_look_up(far + 7 * HK_SLICE);
}

/* A range that once had no marks never gets any. */
UNIT_TEST(marks_refused)
{
    if (UNIT_UNDER_TSAN)
        return;
    assert_true(hk_page_map_init());
    hk_window_open(true);
    uintptr_t first = hk_window_first(), far = first + 4 * HK_GIB;
    assert_true(hk_page_map_cover(first, HK_CHUNK));
    hk_page_map_cover_marks(first, HK_CHUNK);
    assert_true(hk_page_map_cover(far, HK_CHUNK));
    fake_os_refuse(fake_refuse_all);
    hk_page_map_cover_marks(far, HK_CHUNK);
    assert_false(has_mark(far));
    fake_os_refuse(NULL);
    hk_page_map_cover_marks(far, HK_CHUNK);
    assert_false(has_mark(far));
    assert_true(hk_page_map_cover(far + HK_GIB, HK_CHUNK));
    hk_page_map_cover_marks(far + HK_GIB, HK_CHUNK);
    assert_false(has_mark(far));
    assert_true(has_mark(first));
}

/* A leaf with tables of its own has no marks, even if the marks of the window reach beyond it. */
UNIT_TEST(marks_end_at_a_leaf_of_its_own)
{
    if (UNIT_UNDER_TSAN)
        return;
    assert_true(hk_page_map_init());
    hk_window_open(true);
    uintptr_t own = hk_window.base + 100 * HK_LEAF;
    assert_true(hk_page_map_cover(hk_window_first(), HK_CHUNK));
    assert_true(hk_page_map_cover(own, HK_CHUNK));
    hk_page_map_cover_marks(own, HK_CHUNK);
    assert_false(has_mark(own));
    for (size_t leaf = 1; leaf < 100; leaf++) {
        uintptr_t last = hk_window.base + (leaf + 1) * HK_LEAF - HK_CHUNK;
        assert_true(hk_page_map_cover(last, HK_CHUNK));
        hk_page_map_cover_marks(last, HK_CHUNK);
        assert_true(has_mark(last));
    }
    assert_false(has_mark(own));
}

/* If no free can be a hit, another check knows which blocks are live, or no check needs to know. No memory is then used for marks. */
UNIT_TEST(no_marks_where_frees_are_no_hits)
{
    if (UNIT_UNDER_TSAN)
        return;
    assert_true(hk_page_map_init());
    hk_window_open(false);
    uintptr_t far = hk_window_first() + HK_GIB;
    assert_true(hk_page_map_cover(far, HK_CHUNK));
    size_t tables = hk_page_map_tables();
    hk_page_map_cover_marks(far, HK_CHUNK);
    assert_false(has_mark(far));
    assert_int_equal(hk_page_map_tables(), tables);
}

UNIT_TEST(no_address_to_choose)
{
    fake_os.places_taken = true;
    assert_true(hk_page_map_init());
    assert_int_equal(hk_window_first(), 0);
    expect_no_entries();
    hk_window_open(true);
    assert_int_equal(hk_window.flat, 0);
    assert_int_equal(hk_window.marked, 0);
    char *here = hk_os.map(hk_system_page());
    assert_non_null(here);
    /* The first leaf contains NULL, so it is not in the window. Under valgrind, the system chooses addresses there. */
    uintptr_t at = hk_max((uintptr_t)here / HK_LEAF, 1) * HK_LEAF + HK_CHUNK + 7 * HK_SLICE;
    assign_and_look_up(at);
    window_agrees(at);
}

static uintptr_t lowest_place;
static void *map_low(size_t size)
{
    static const size_t step = HK_CHUNK;
    int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    void *p = MAP_FAILED;
    for (uintptr_t at = lowest_place; p == MAP_FAILED && at < TOP / 2; at += step)
        p = mmap((void *)at, size, PROT_READ | PROT_WRITE, how, -1, 0); /* NOLINT(performance-no-int-to-ptr) */
    return p != MAP_FAILED ? p : NULL;
}

/* A thread with a stack at a low address has started HAKMEM. The system then chooses low addresses, and the window must not contain NULL. */
static void start_low(uintptr_t place)
{
    uintptr_t base_before = hk_window.base;
    fake_os.places_taken = true;
    hk_os.map = map_low;
    lowest_place = place;
    unit_start();
    assert_true(hk_window.hits > 0);
    assert_true(0 - base_before >= hk_window.hits); /* a thread may have read the base before HAKMEM started */
    assert_true(0 - hk_window.base >= hk_window.hits);
    hak_free(NULL);
    hak_free_sized(NULL, 0);
    assert_int_equal(hak_malloc_usable_size(NULL), 0);
    char *block = hak_realloc(NULL, 100), *large = hak_malloc(3 << 20);
    assert_true(block != NULL && large != NULL);
    hak_free(hak_realloc(block, 200000));
    hak_free(large);
}

UNIT_TEST(low_addresses) { start_low(HK_LEAF / 2); }
UNIT_TEST(addresses_in_the_second_leaf) { start_low(HK_LEAF * 3 / 2); }

/* The tables of the page map take only a small part of the address space that a limit allows. */
UNIT_TEST(address_limit)
{
    fake_os.places_taken = true;
    fake_os.address_limit = 24 * HK_MIB;
    assert_true(hk_page_map_init());
    assert_true(hk_page_map_tables() <= fake_os.address_limit / 8);
}

UNIT_TEST(all_refused_and_then_not)
{
    fake_os_refuse(fake_refuse_all);
    assert_false(hk_page_map_init());
    fake_os_refuse(NULL);
    assert_true(hk_page_map_init());
    hk_window_open(true);
    fake_os_refuse(fake_refuse_all);
    assert_false(hk_page_map_cover(hk_window_first(), 1));
    assert_int_equal(hk_page_map_lookup(hk_window_first()), 0);
    fake_os_refuse(NULL);
    assign_and_look_up(hk_window_first() + 7 * HK_SLICE);
}

/* If a table was mapped in advance, an address can be covered although the system refuses all memory. The table is used once, and covers the
 * whole leaf of the address. */
UNIT_TEST(table_at_hand)
{
    enum { BRANCH = 1, LEAF = 7 };
    uintptr_t at = ((uintptr_t)BRANCH << HK_BRANCH_SHIFT) + LEAF * HK_LEAF;
    void *first = hk_os.map(HK_PAGE_MAP_TABLE), *other = first;
    assert_true(hk_page_map_init());
    fake_os_refuse(fake_refuse_mappings);
    assert_false(hk_page_map_cover(at, HK_SLICE));
    assert_true(hk_page_map_cover_with(at, &first));
    assert_null(first);
    hk_page_map_assign(at, 1, 0x123420, descriptor(99));
    assert_int_equal(hk_page_map_lookup(at), 0x123420);
    assert_ptr_equal(hk_load(*hk_page_map_descriptor(at)), descriptor(99));
    assert_int_equal(hk_page_map_lookup(at + HK_LEAF - 1), 0);
    assert_int_equal(hk_page_map_lookup(at + HK_LEAF), 0);
    void *second = other;
    assert_true(hk_page_map_cover_with(at + HK_LEAF / 2, &second));
    assert_ptr_equal(second, other);
    second = NULL;
    assert_false(hk_page_map_cover_with(at + HK_LEAF, &second));
}

/* Each byte of each table lies in exactly one range of the list, and the ranges come in order of address. */
UNIT_TEST(tables_are_listed)
{
    assert_true(hk_page_map_init());
    for (size_t leaf = 0; leaf < 50; leaf++)
        assert_true(hk_page_map_cover(hk_window_first() + leaf * 100 * HK_LEAF, 1));
    size_t bytes = 0;
    for (uintptr_t from = 0;;) {
        struct hk_range table = hk_page_map_next_table(from, UINTPTR_MAX);
        if (table.start == table.end)
            break;
        bytes += table.end - table.start;
        from = table.end;
    }
    assert_int_equal(bytes, hk_page_map_tables());
    size_t leaves = 0;
    for (uintptr_t at = 0; (at = hk_page_map_next_covered(at)) != UINTPTR_MAX; at = (at / HK_LEAF + 1) * HK_LEAF)
        leaves++;
    assert_int_equal(leaves, 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(window),
        cmocka_unit_test(window_grows),
        cmocka_unit_test(below_the_first_address),
        cmocka_unit_test(window_stopped),
        cmocka_unit_test(window_meets_a_leaf_of_its_own),
        cmocka_unit_test(a_tebibyte),
        cmocka_unit_test(marks),
        cmocka_unit_test(marks_refused),
        cmocka_unit_test(marks_end_at_a_leaf_of_its_own),
        cmocka_unit_test(no_marks_where_frees_are_no_hits),
        cmocka_unit_test(no_address_to_choose),
        cmocka_unit_test(low_addresses),
        cmocka_unit_test(addresses_in_the_second_leaf),
        cmocka_unit_test(address_limit),
        cmocka_unit_test(all_refused_and_then_not),
        cmocka_unit_test(table_at_hand),
        cmocka_unit_test(tables_are_listed),
    };
    return cmocka_run_group_tests_name("page_map", tests, NULL, NULL);
}
