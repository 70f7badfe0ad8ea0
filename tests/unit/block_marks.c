/* Tests the marks of medium blocks, the error messages if a mark is missing, and slabs without marks. */
#include "unit/unit.h"

#include <stdio.h>

#include "hakmem.h"
#include "slab/slab.h"
#include "tcache/tcache.h"

enum { SIZE = 40 * HK_KIB }; /* a slab has three blocks of this size */

static _Atomic uint8_t *mark_of(const void *block)
{
    _Atomic uint8_t *mark = NULL;
    assert_true(hk_page_map_has_mark((uintptr_t)block, &mark));
    return mark;
}

static bool is_marked(const void *block) { return hk_load(*mark_of(block)) == HK_MARK_LIVE; }

UNIT_TEST(marked_while_with_the_program)
{
    if (UNIT_UNDER_TSAN)
        return;
    void *aligned;
    unit_start();
    char *block = hak_malloc(SIZE);
    assert_true(is_marked(block));
    assert_false(is_marked(block + HK_KIB));
    hak_free(block);
    assert_false(is_marked(block));
    assert_ptr_equal(hak_malloc(SIZE), block); /* This call is a hit. */
    assert_true(is_marked(block));
    hak_free_sized(block, SIZE);
    assert_false(is_marked(block));
    block = hak_calloc(SIZE, 1);
    assert_true(is_marked(block));
    char *moved = hak_realloc(block, 10 * SIZE);
    assert_true(is_marked(moved));
    assert_false(is_marked(block));
    moved = hak_realloc(moved, 9 * SIZE); /* This realloc does not move the block. */
    assert_true(is_marked(moved));
    hak_free(moved);
    assert_int_equal(hak_posix_memalign(&aligned, HK_SLICE, 100), 0);
    assert_true(is_marked(aligned));
    hak_free(aligned);
    assert_false(is_marked(aligned));
    char *small = hak_malloc(HK_FINE_MAX);
    assert_false(is_marked(small));
    hak_free(small);
}

static void free_it(void *block) { hak_free(block); }
static void resize_it(void *block) { hak_free(hak_realloc(block, 3 * SIZE)); }
static void measure_it(void *block) { (void)hak_malloc_usable_size(block); }
static void free_small_size(void *block) { hak_free_sized(block, 4 * SIZE); }

static void dies_in_every_call(void *block, const char *fault)
{
    static const struct {
        const char *name;
        void (*action)(void *block);
    } calls[] = {{"free()", free_it}, {"realloc()", resize_it}, {"malloc_usable_size()", measure_it}};
    for (unsigned i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        char expected[100];
        (void)snprintf(expected, sizeof expected, "%s: %s: address 0x", calls[i].name, fault);
        unit_dies(calls[i].action, block, expected);
    }
}

static char *kept;
static void make(void *unused)
{
    (void)unused;
    kept = hak_malloc(SIZE);
    assert_non_null(hak_malloc(SIZE)); /* This block stays allocated, so that its slab is not released. */
}

UNIT_TEST(unmarked)
{
    unit_start();
    char *block = hak_malloc(SIZE), *other = hak_malloc(SIZE);
    dies_in_every_call(block + 1, "pointer inside a block");
    dies_in_every_call(block + 8 * HK_KIB, "pointer inside a block");
    dies_in_every_call(block + SIZE - 16, "pointer inside a block");
    unit_dies(free_small_size, block, "free_sized(): size of another class: 163840 bytes: address 0x");
    hak_free(block);
    if (!UNIT_UNDER_TSAN)
        dies_in_every_call(block, "block already free"); /* The block is in the bin. */
    hk_tcache_trim(hk_tcache_self());
    dies_in_every_call(block, "block already free"); /* After the trim, the bin has returned the block to the slab. */
    hak_free(other);
    unit_in_thread(make, NULL);
    dies_in_every_call(kept + 16, "pointer inside a block");
    hak_free(kept);
    if (!UNIT_UNDER_TSAN)
        dies_in_every_call(kept, "block already free");
}

static bool refuse_small_places(enum fake_call call, uint64_t ordinal)
{
    (void)ordinal;
    return call == FAKE_MAP_AT;
}

/* If the memory for marks is refused, blocks work as before. The slab's bitmap then detects as many mistakes as it can. */
UNIT_TEST(without_marks)
{
    enum { BLOCKS = 150 };
    static char *blocks[BLOCKS];
    _Atomic uint8_t *mark;
    unit_start();
    char *marked = hak_malloc(SIZE);
    fake_os_refuse(refuse_small_places);
    unsigned without = 0, last = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = hak_malloc(HK_MIB - 100);
        assert_non_null(blocks[i]);
        if (!hk_page_map_has_mark((uintptr_t)blocks[i], &mark)) {
            without++;
            last = i;
        }
    }
    assert_true(without > 0);
    fake_os_refuse(NULL);
    dies_in_every_call(blocks[last] + HK_KIB, "pointer inside a block");
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
    for (unsigned i = 0; i < BLOCKS; i++)
        assert_non_null(blocks[i] = hak_malloc(HK_MIB - 100));
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free_sized(blocks[i], HK_MIB - 100);
    hak_free(marked);
    unit_heap_holds(0);
}

/* A fork child does not know which blocks other threads had in their bins, so it counts these blocks as live. */
UNIT_TEST(assumed)
{
    if (UNIT_UNDER_TSAN)
        return;
    unit_start();
    char *block = hak_malloc(SIZE), *other = hak_malloc(SIZE);
    const struct hk_slab *slab = hk_slab_at((uintptr_t)block);
    hak_free(block);
    assert_false(is_marked(block));
    hk_marks_assume(slab);
    assert_true(is_marked(block));
    assert_true(is_marked(other));
    hk_store(*mark_of(block), 0);
    hk_tcache_trim(hk_tcache_self());
    hk_marks_assume(slab);
    assert_false(is_marked(block)); /* hk_marks_assume() marks no block that is free in its slab. */
    hak_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marked_while_with_the_program),
        cmocka_unit_test(unmarked),
        cmocka_unit_test(without_marks),
        cmocka_unit_test(assumed),
    };
    return cmocka_run_group_tests_name("live", tests, NULL, NULL);
}
