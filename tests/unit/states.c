/* Tests that each 16 bytes of the heap have a state byte of their own. The states of a chunk are mapped once, and spare memory for states is not
 * lost. */
#include "unit/unit.h"

#include "guard/block_checks.h"
#include "hakmem.h"
#include "policy/options.h"

enum { RESIZES = 100 };

static void start(void)
{
    hk_options.safe_free = HK_SAFE_FREE_STRICT;
    unit_start();
}

UNIT_TEST(one_for_16_bytes)
{
    start();
    char *block = hak_malloc(16);
    uintptr_t address = (uintptr_t)block;
    hk_state_byte *state = hk_state_at(address);
    assert_int_equal(hk_load(*state) & ~3, HK_STATE_LIVE);
    assert_ptr_equal(hk_state_at(address + 15), state);
    assert_ptr_equal(hk_state_at(address + 16), state + 1);
    hak_free(block);
    assert_int_equal(hk_load(*state), HK_STATE_FREE);
}

static void expect_nothing_at(uintptr_t address)
{
    assert_null(hk_state_at(address));
    assert_null(hk_state_in_window(address));
}

/* Checks addresses without states. The window has page map entries for whole leaves, but the chunks after the end of the heap are not mapped. */
static void expect_nothing_outside(void)
{
    char here;
    start();
    expect_nothing_at((uintptr_t)&here);
    expect_nothing_at(0);
    expect_nothing_at(UINTPTR_MAX);
    for (size_t place = 0; place < hk_window.covered; place += HK_CHUNK)
        expect_nothing_at(hk_window.base + place);
}

UNIT_TEST(nothing_outside) { expect_nothing_outside(); }

/* If the system chose the heap's address, the window has page map entries for addresses that have no leaf. These addresses must have no states. */
UNIT_TEST(nothing_outside_elsewhere)
{
    fake_os.places_taken = true;
    expect_nothing_outside();
}

/* The second of two spare mappings is returned to the system. */
UNIT_TEST(spare)
{
    start();
    uintptr_t address = (uintptr_t)hak_malloc(100);
    hk_state_byte *state = hk_state_at(address), *one = hk_states_take_spare(), *other = hk_states_take_spare();
    assert_true(one != NULL && other != NULL && one != other);
    fake_os_refuse(NULL);
    assert_ptr_equal(hk_state_make_from(address, one), state);
    assert_int_equal(fake_os_calls(FAKE_UNMAP), 0);
    assert_ptr_equal(hk_state_make_from(address, other), state);
    assert_int_equal(fake_os_calls(FAKE_UNMAP), 1);
    assert_ptr_equal(hk_states_take_spare(), other);
    assert_int_equal(fake_os_calls(FAKE_MAP), 0);
    assert_non_null(hk_states_take_spare());
    assert_int_equal(fake_os_calls(FAKE_MAP), 1);
}

/* While a block's pages are remapped to a new address, its old address counts as free. */
UNIT_TEST(passage)
{
    start();
    char *block = hak_malloc(4 * HK_MIB);
    hk_state_byte *state = hk_state_at((uintptr_t)block);
    uint8_t live = hk_load(*state);
    hk_state_byte *spare = hk_guard_passage_begin(block);
    assert_non_null(spare);
    assert_int_equal(hk_load(*state), HK_STATE_FREE);
    hk_guard_passage_end(spare, block, HK_KIND_MALLOC);
    assert_int_equal(hk_load(*state), live);
    fake_os_refuse(NULL);
    for (unsigned i = 0; i < RESIZES; i++) {
        assert_non_null(spare = hk_guard_passage_begin(block));
        hk_guard_passage_end(spare, block, HK_KIND_MALLOC);
    }
    assert_int_equal(fake_os_calls(FAKE_MAP), 0);
    hak_free(block);
}

static void free_old_address(void *block) { hak_free(block); }

UNIT_TEST(moved_by_its_pages)
{
    start();
    char *block = hak_malloc(4 * HK_MIB), *moved = block;
    for (size_t size = 8 * HK_MIB; moved == block && size < (size_t)1 << 32; size *= 2)
        assert_non_null(moved = hak_realloc(block, size));
    assert_ptr_not_equal(moved, block);
    unit_dies(free_old_address, block, "hakmem: free(): ");
    hak_free(moved);
    unit_heap_holds(0);
}

/* If there is no memory for the move, the block stays at its address and is live. */
UNIT_TEST(refused)
{
    start();
    char *block = hak_malloc(4 * HK_MIB);
    fake_os_refuse(fake_refuse_map);
    assert_null(hk_guard_passage_begin(block));
    assert_true((hk_load(*hk_state_at((uintptr_t)block)) & HK_STATE_LIVE) != 0);
    fake_os_refuse(NULL);
    hak_free(block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_for_16_bytes),
        cmocka_unit_test(nothing_outside),
        cmocka_unit_test(nothing_outside_elsewhere),
        cmocka_unit_test(spare),
        cmocka_unit_test(passage),
        cmocka_unit_test(moved_by_its_pages),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
