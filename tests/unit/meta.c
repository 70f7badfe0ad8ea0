/* Tests that metadata blocks are zero, aligned and do not overlap, and that each byte is accounted for. A refused request returns NULL. Free pages
 * are purged. */
#include "unit/unit.h"

#include <string.h>

#include "span/footprint.h"
#include "span/meta.h"
#include "support/pattern.h"
#include "support/rng.h"

enum { SLOTS = 200, STEPS = 5000 };

static size_t rounded(size_t size) { return (size + 63) / 64 * 64; }

UNIT_TEST(random_load)
{
    struct {
        unsigned char *p;
        size_t size;
    } slots[SLOTS] = {{NULL, 0}};
    struct rng rng = rng_seeded(3);
    size_t used = 0;
    for (uint64_t step = 0; step < STEPS; step++) {
        uint32_t i = rng_below(&rng, SLOTS);
        if (slots[i].p == NULL) {
            slots[i].size = 1 + rng_below(&rng, rng_below(&rng, 8) == 0 ? 32768 : 700);
            slots[i].p = hk_meta_alloc(slots[i].size);
            assert_non_null(slots[i].p);
            assert_int_equal((uintptr_t)slots[i].p % 64, 0);
            assert_true(all_zero(slots[i].p, slots[i].size));
            pattern_fill(slots[i].p, slots[i].size, i);
            used += rounded(slots[i].size);
        } else {
            assert_true(pattern_holds(slots[i].p, slots[i].size, i));
            hk_meta_free(slots[i].p, slots[i].size);
            slots[i].p = NULL;
            used -= rounded(slots[i].size);
        }
        assert_true(used <= hk_meta_mapped() - hk_meta_unused());
    }
}

UNIT_TEST(reuse)
{
    void *first = hk_meta_alloc(1000);
    memset(first, 0xff, 1000);
    size_t mapped = hk_meta_mapped(), unused = hk_meta_unused();
    hk_meta_free(first, 1000);
    assert_int_equal(hk_meta_unused(), unused + 1024);
    unsigned char *again = hk_meta_alloc(1001);
    assert_ptr_equal(again, first);
    assert_true(all_zero(again, 1024));
    assert_int_equal(hk_meta_mapped(), mapped);
    assert_int_equal(hk_meta_unused(), unused);
}

UNIT_TEST(refused)
{
    fake_os_refuse(fake_refuse_map);
    assert_null(hk_meta_alloc(64));
    assert_int_equal(hk_meta_mapped(), 0);
    fake_os_refuse(NULL);
    assert_non_null(hk_meta_alloc(64));
}

static bool refuse_first(enum fake_call call, uint64_t ordinal)
{
    (void)call;
    return ordinal == 1;
}

/* If the system refuses a region of the usual size, a smaller one serves the request. */
UNIT_TEST(small_region)
{
    fake_os_refuse(refuse_first);
    assert_non_null(hk_meta_alloc(5000));
    assert_int_equal(hk_meta_mapped(), 65536);
    fake_os_refuse(refuse_first);
    char *pages = hk_meta_pages(3 * 4096);
    assert_int_equal((uintptr_t)pages % 4096, 0);
    assert_int_equal(hk_meta_mapped(), 65536 + 4 * 4096);
}

static size_t resident_bytes(void)
{
    size_t bytes = 0;
    for (struct hk_range at = hk_meta_next(0, UINTPTR_MAX); at.start < at.end; at = hk_meta_next(at.end, UINTPTR_MAX)) {
        unsigned char pages[2048];
        size_t page = hk_system_page();
        assert_true((at.end - at.start) / page <= sizeof pages);
        assert_true(hk_os.resident((void *)at.start, at.end - at.start, pages));
        for (size_t i = 0; i < (at.end - at.start) / page; i++)
            bytes += (pages[i] & 1) * page;
    }
    return bytes;
}

enum { MANY = 20000, LARGE = 9000 };
static unsigned char *many[MANY];

static size_t size_of(unsigned i) { return i % 50 == 0 ? LARGE : 64 + i % 7 * 100; }

static void fill(void)
{
    for (unsigned i = 0; i < MANY; i++) {
        many[i] = hk_meta_alloc(size_of(i));
        assert_non_null(many[i]);
        assert_true(all_zero(many[i], size_of(i)));
        pattern_fill(many[i], size_of(i), i);
    }
}

static void drop(unsigned every)
{
    for (unsigned i = 0; i < MANY; i++)
        if (many[i] != NULL && (every == 0 || i % every != 0)) {
            assert_true(pattern_holds(many[i], size_of(i), i));
            hk_meta_free(many[i], size_of(i));
            many[i] = NULL;
        }
}

/* After a peak, only one page of each region stays resident, and the memory can be used again. */
UNIT_TEST(purges)
{
    fill();
    size_t mapped = hk_meta_mapped(), peak = resident_bytes();
    assert_true(peak > 8 * HK_MIB);
    assert_true(hk_meta_spare() < 128 * HK_KIB);
    drop(0);
    assert_true(hk_meta_spare() > 8 * HK_MIB);
    assert_int_equal(hk_meta_purge(false), 0); /* The first purge only marks the free pages as idle. */
    assert_true(hk_meta_purge(false) > 8 * HK_MIB);
    hk_meta_purge(true);
    assert_true(resident_bytes() <= 80 * HK_KIB);
    assert_int_equal(hk_meta_mapped() - hk_meta_unused() + hk_meta_spare(), resident_bytes());
    fill();
    assert_int_equal(hk_meta_mapped(), mapped);
    drop(0);
}

/* Blocks in use keep their contents, and the pages around them are purged. */
UNIT_TEST(purges_around)
{
    fill();
    drop(500);
    hk_meta_purge(true);
    assert_true(resident_bytes() < 2 * HK_MIB);
    for (unsigned i = 0; i < MANY; i += 500)
        assert_true(pattern_holds(many[i], size_of(i), i));
    unsigned char *more = hk_meta_alloc(30000);
    assert_true(all_zero(more, 30000));
    drop(0);
}

/* If only a few pages are free, they are not purged. Pages that are used again before the second purge are not purged either. */
UNIT_TEST(keeps_a_few_pages)
{
    fake_os_refuse(NULL);
    unsigned char *block = hk_meta_alloc(20000);
    hk_meta_free(block, 20000);
    assert_int_equal(hk_meta_purge(false) + hk_meta_purge(false), 0);
    assert_int_equal(fake_os_calls(FAKE_PURGE), 0);
    fill();
    drop(0);
    hk_meta_purge(false);
    fill();
    assert_int_equal(hk_meta_purge(false), 0);
    drop(0);
}

UNIT_TEST(purge_refused)
{
    fill();
    drop(500);
    size_t unused = hk_meta_unused(), spare = hk_meta_spare();
    fake_os_refuse(fake_refuse_purge);
    assert_int_equal(hk_meta_purge(true), 0);
    assert_int_equal(hk_meta_unused(), unused);
    assert_true(hk_meta_spare() >= spare); /* All pages of an area that may have lost its header count. */
    drop(0);
    assert_int_equal(hk_meta_purge(true), 0);
    fill();
    drop(0);
    fake_os_refuse(NULL);
    assert_true(hk_meta_purge(true) > 8 * HK_MIB);
    assert_true(resident_bytes() <= 80 * HK_KIB);
}

/* For every k, the k-th system call fails. An allocation then returns a block or NULL, and has no other effect. */
static uint64_t fails_at;
static bool refuse_one(enum fake_call call, uint64_t ordinal)
{
    (void)call;
    return ordinal == fails_at;
}

UNIT_TEST(any_call_refused)
{
    enum { BLOCKS = 3000 };
    bool refused = true;
    for (fails_at = 1; refused; fails_at++) {
        fake_os_refuse(refuse_one);
        for (unsigned i = 0; i < BLOCKS; i++) {
            many[i] = hk_meta_alloc(size_of(i));
            if (many[i] != NULL) {
                assert_true(all_zero(many[i], size_of(i)));
                pattern_fill(many[i], size_of(i), i);
            }
        }
        for (unsigned i = 0; i < BLOCKS; i++)
            if (many[i] != NULL && i % 9 != 0) {
                assert_true(pattern_holds(many[i], size_of(i), i));
                hk_meta_free(many[i], size_of(i));
            }
        hk_meta_purge(true);
        for (unsigned i = 0; i < BLOCKS; i += 9)
            if (many[i] != NULL) {
                assert_true(pattern_holds(many[i], size_of(i), i));
                hk_meta_free(many[i], size_of(i));
            }
        hk_meta_purge(true);
        refused = hk_load(fake_os.xrefused) > 0;
    }
    fake_os_refuse(NULL);
    assert_true(fails_at > 20);
    assert_int_equal(hk_meta_mapped() - hk_meta_unused() + hk_meta_spare(), resident_bytes());
}

/* Resting pages are not in use, and they read as zeros. */
UNIT_TEST(pages_rest)
{
    const size_t bytes = 3 * hk_system_page();
    unsigned char *pages = hk_meta_pages(bytes);
    assert_true(all_zero(pages, bytes));
    memset(pages, 1, bytes);
    size_t unused = hk_meta_unused();
    fake_os_refuse(fake_refuse_purge);
    assert_false(hk_meta_rest(pages, bytes));
    assert_int_equal(hk_meta_unused(), unused);
    fake_os_refuse(NULL);
    assert_true(hk_meta_rest(pages, bytes));
    assert_int_equal(hk_meta_unused(), unused + bytes);
    assert_true(all_zero(pages, bytes));
    hk_meta_wake(bytes);
    assert_int_equal(hk_meta_unused(), unused);
}

/* Each block lies in a region, and the sizes of the regions add up to all mapped bytes. */
UNIT_TEST(regions)
{
    enum { BLOCKS = 100 };
    void *blocks[BLOCKS];
    size_t bytes = 0, within = 0;
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = hk_meta_alloc(20000);
    for (struct hk_range at = hk_meta_next(0, UINTPTR_MAX); at.start < at.end; at = hk_meta_next(at.end, UINTPTR_MAX)) {
        bytes += at.end - at.start;
        for (int i = 0; i < BLOCKS; i++)
            within += (uintptr_t)blocks[i] >= at.start && (uintptr_t)blocks[i] + 20000 <= at.end;
    }
    assert_int_equal(bytes, hk_meta_mapped());
    assert_int_equal(within, BLOCKS);
    uintptr_t from = (uintptr_t)blocks[0] + 10, to = from + 5;
    struct hk_range part = hk_meta_next(from, to);
    assert_int_equal(part.start, from);
    assert_int_equal(part.end, to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_load),   cmocka_unit_test(reuse),
                                       cmocka_unit_test(refused),       cmocka_unit_test(small_region),
                                       cmocka_unit_test(regions),       cmocka_unit_test(purges),
                                       cmocka_unit_test(purges_around), cmocka_unit_test(keeps_a_few_pages),
                                       cmocka_unit_test(purge_refused), cmocka_unit_test(any_call_refused),
                                       cmocka_unit_test(pages_rest)};
    return cmocka_run_group_tests_name("meta", tests, NULL, NULL);
}
