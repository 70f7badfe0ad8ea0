/* Tests that a reused descriptor is zero after its head. A stale pointer to a free descriptor reads a start of 0. Page map entries and ages
 * return the stored values. */
#include "unit/unit.h"

#include <string.h>

#include "span/descriptor.h"

enum { MANY = 300 };

UNIT_TEST(slots)
{
    struct hk_descriptor *made[MANY];
    unit_start();
    for (unsigned i = 0; i < MANY; i++) {
        made[i] = hk_descriptor_new();
        assert_non_null(made[i]);
        assert_int_equal((uintptr_t)made[i] % HK_CACHE_LINE, 0);
        for (unsigned other = 0; other < i; other++)
            assert_true(made[other] + HK_DESCRIPTOR_BYTES / sizeof *made[other] <= made[i] ||
                        made[i] + HK_DESCRIPTOR_BYTES / sizeof *made[i] <= made[other]);
        memset(made[i], 0xee, HK_DESCRIPTOR_BYTES);
    }
}

/* Simulates the descriptor of a slab that becomes the descriptor of a large block. */
UNIT_TEST(reused)
{
    static const char zeros[HK_DESCRIPTOR_BYTES - sizeof(struct hk_descriptor)];
    unit_start();
    struct hk_descriptor *first = hk_descriptor_new();
    memset(first, 0xee, HK_DESCRIPTOR_BYTES);
    first->block_size = 48;
    hk_descriptor_drop(first);
    assert_int_equal(first->start, 0);
    assert_int_equal(first->block_size, 48);
    struct hk_descriptor *again = hk_descriptor_new();
    assert_ptr_equal(again, first);
    assert_int_equal(again->start, 0);
    assert_memory_equal(again + 1, zeros, sizeof zeros);
}

struct visits {
    const struct hk_descriptor *wanted;
    unsigned found, all;
};

static void count_visit(struct hk_descriptor *descriptor, void *context)
{
    struct visits *visits = context;
    visits->all++;
    visits->found += descriptor == visits->wanted;
}

UNIT_TEST(visited)
{
    unit_start();
    for (unsigned i = 0; i < MANY; i++) {
        struct visits visits = {.wanted = hk_descriptor_new()};
        hk_descriptors_visit(count_visit, &visits);
        assert_int_equal(visits.found, 1);
        assert_true(visits.all > i);
    }
}

UNIT_TEST(refused)
{
    unit_start();
    struct hk_descriptor *unused = hk_descriptor_new();
    fake_os_refuse(fake_refuse_all);
    for (unsigned i = 0; hk_descriptor_new() != NULL; i++)
        assert_true(i < 1000000);
    hk_descriptor_drop(unused);
    assert_ptr_equal(hk_descriptor_new(), unused);
    assert_null(hk_descriptor_new());
    fake_os_refuse(NULL);
    assert_non_null(hk_descriptor_new());
}

UNIT_TEST(entries)
{
    static const uint32_t owners[] = {HK_ABANDONED, HK_FIRST_OWNER, 77, (1u << 19) - 1};
    for (unsigned i = 0; i < sizeof owners / sizeof owners[0]; i++)
        for (unsigned class = 0; class < HK_CLASSES; class ++) {
            uint32_t entry = hk_entry(owners[i], class), mixed = entry | HK_ENTRY_MIXED;
            assert_int_equal(hk_entry_owner(entry), owners[i]);
            assert_int_equal(hk_entry_owner(mixed), owners[i]);
            assert_int_equal(hk_entry_class(entry), class);
            assert_int_equal(hk_entry_class(mixed), class);
            assert_true(hk_entry_is_plain(entry) && !hk_entry_is_mixed(entry));
            assert_true(!hk_entry_is_plain(mixed) && hk_entry_is_mixed(mixed));
            assert_int_equal(hk_entry_is_plain_from(entry, HK_FIRST_OWNER), owners[i] != HK_ABANDONED);
        }
    uint32_t large = hk_entry(HK_NOBODY, HK_CLASS_LARGE);
    assert_true(large != 0 && !hk_entry_is_plain(large) && hk_entry_class(large) == HK_CLASS_LARGE);
    assert_false(hk_entry_is_plain(0));
}

/* `now` passes 2^16 units of 64 ms, so that the 16-bit stamps of ages overflow. */
UNIT_TEST(ages)
{
    for (uint64_t now = 0; now < (uint64_t)3 << 22; now += 64 * 500)
        for (uint64_t age = 0; age < 64 * 60000 && age <= now; age += 64 * 7000)
            assert_int_equal(hk_age_since(hk_age_stamp(now - age), now), age / 64 * 64);
}

static void invalid(void *p) { hk_invalid_pointer(HK_CALL_REALLOC, "pointer not from this allocator", p); }

UNIT_TEST(not_ours)
{
    unit_start();
    unit_dies(invalid, (void *)0x1230,
              "hakmem: realloc(): pointer not from this allocator: address 0x1230, class - bytes, owner -\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots),   cmocka_unit_test(reused), cmocka_unit_test(visited),  cmocka_unit_test(refused),
        cmocka_unit_test(entries), cmocka_unit_test(ages),   cmocka_unit_test(not_ours),
    };
    return cmocka_run_group_tests_name("descriptor", tests, NULL, NULL);
}
