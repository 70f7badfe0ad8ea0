/* Map: whose address is this, in both shapes of the map, and when the system refuses to start it. */
#include "unit/unit.h"

#include "span/map.h"

#define TOP ((uintptr_t)1 << HK_ADDRESS_BITS)

/* Some address that nobody looked up before, in the middle of a super. */
static uintptr_t an_address(void)
{
    char *p = hk_os.map(4 * HK_SUPER, HK_ACCESS_NONE);
    assert_non_null(p);
    return ((uintptr_t)p + HK_SUPER) / HK_SUPER * HK_SUPER + 7 * HK_UNIT;
}

static void assign_and_look_up(void)
{
    uintptr_t at = an_address();
    assert_int_equal(hk_map_lookup(at), 0);
    assert_true(hk_map_cover(at, 30 * HK_UNIT));
    hk_map_assign(at, 30, 0x123420, 99);
    assert_int_equal(hk_map_lookup(at - 1), 0);
    for (size_t i = 0; i < 30; i++) {
        assert_int_equal(hk_map_lookup(at + i * HK_UNIT), 0x123420);
        assert_int_equal(hk_map_lookup(at + (i + 1) * HK_UNIT - 1), 0x123420);
        assert_int_equal(hk_load(*hk_map_slab(at + i * HK_UNIT)), 99);
    }
    assert_int_equal(hk_map_lookup(at + 30 * HK_UNIT), 0);
    assert_ptr_not_equal(hk_map_super(at), hk_map_super(at + 29 * HK_UNIT));
    hk_map_route_all(at + HK_UNIT, 28, 0);
    assert_int_equal(hk_map_lookup(at), 0x123420);
    assert_int_equal(hk_map_lookup(at + HK_UNIT), 0);
    assert_int_equal(hk_map_lookup(at + 29 * HK_UNIT), 0x123420);
    assert_true(hk_map_committed() > 0);
}

UNIT_TEST(flat)
{
    assert_true(hk_map_init());
    assert_true(hk_map.flat);
    static const uintptr_t anywhere[] = {0,       1,   4096,    0x400000,           TOP / 2,
                                         TOP - 1, TOP, TOP + 1, (uintptr_t)1 << 63, UINTPTR_MAX};
    for (size_t i = 0; i < sizeof anywhere / sizeof anywhere[0]; i++)
        assert_int_equal(hk_map_lookup(anywhere[i]), 0);
    assert_int_equal(hk_map_lookup((uintptr_t)&hk_map), 0);
    assert_true(hk_map_cover(TOP - HK_UNIT, HK_UNIT));
    assert_false(hk_map_cover(TOP - HK_UNIT, 2 * HK_UNIT));
    assert_false(hk_map_cover(TOP, 1));
    assign_and_look_up();
}

UNIT_TEST(window)
{
    fake_os.address_limit = 256 * HK_MIB;
    assert_true(hk_map_init());
    assert_false(hk_map.flat);
    assert_int_equal(hk_map_lookup(0), 0);
    assert_int_equal(hk_map_lookup(UINTPTR_MAX), 0);
    uintptr_t low = hk_map.first_unit * HK_UNIT, high = low + hk_map.units * HK_UNIT;
    assert_int_equal(hk_map_lookup(low), 0);
    assert_int_equal(hk_map_lookup(high - 1), 0);
    assert_int_equal(hk_map_lookup(low - 1), 0);
    assert_int_equal(hk_map_lookup(high), 0);
    assert_false(hk_map_cover(low - 1, 2));
    assert_false(hk_map_cover(high - 1, 2));
    assert_false(hk_map_cover(high, 1));
    assign_and_look_up();
}

UNIT_TEST(all_refused_and_then_not)
{
    fake_os_refuse(fake_refuse_all);
    assert_false(hk_map_init());
    fake_os_refuse(NULL);
    assert_true(hk_map_init());
    assert_true(hk_map.flat);
    assign_and_look_up();
}

static uint64_t refused_commit;

static bool refuse_one_commit(enum fake_call call, uint64_t ordinal)
{
    (void)ordinal;
    return call == FAKE_COMMIT && fake_os_calls(FAKE_COMMIT) == refused_commit;
}

/* A window that cannot be made writable is given up; the next one must be writable throughout. */
UNIT_TEST(window_given_up)
{
    static const uint64_t which[] = {1, 2, 4096, 4097, 4098, 5000};
    fake_os.address_limit = 4 * HK_GIB;
    for (size_t i = 0; i < sizeof which / sizeof which[0]; i++) {
        hk_map = (struct hk_map){0};
        refused_commit = which[i];
        fake_os_refuse(refuse_one_commit);
        assert_true(hk_map_init());
        fake_os_refuse(NULL);
        for (size_t unit = 0; unit < hk_map.units; unit += 61)
            hk_map_assign((hk_map.first_unit + unit) * HK_UNIT, 1, 5, 6);
        hk_map_assign((hk_map.first_unit + hk_map.units - 1) * HK_UNIT, 1, 5, 6);
        assert_int_equal(hk_map_lookup((hk_map.first_unit + hk_map.units - 1) * HK_UNIT), 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(flat), cmocka_unit_test(window),
                                       cmocka_unit_test(all_refused_and_then_not), cmocka_unit_test(window_given_up)};
    return cmocka_run_group_tests_name("map", tests, NULL, NULL);
}
