/* Tests that a policy is published as a whole, that its page is read-only, and that a policy stays in force if the system refuses. */
#include "unit/unit.h"

#include <signal.h>
#include <unistd.h>

#include "policy/policy.h"
#include "unit/fake_os.h"

static struct hk_knobs numbered(uint64_t base)
{
    struct hk_knobs knobs;
    for (unsigned knob = 0; knob < HK_KNOBS; knob++)
        knobs.value[knob] = base + knob;
    return knobs;
}

static void assert_in_force(uint64_t base)
{
    struct hk_knobs now;
    hk_policy_read(&now);
    for (unsigned knob = 0; knob < HK_KNOBS; knob++)
        assert_int_equal(now.value[knob], base + knob);
}

UNIT_TEST(begins_as_the_options_say)
{
    fake_os_reset();
    hk_options.purge_delay = 77;
    hk_options.large_fit = 123;
    hk_policy_begin();
    assert_int_equal(HK_POLICY(purge_delay), 77);
    assert_int_equal(HK_POLICY(large_fit), 123);
}

UNIT_TEST(each_page_holds_one_policy)
{
    fake_os_reset();
    for (uint64_t n = 0; n < 3 * HK_POLICY_PAGES; n++) {
        struct hk_knobs knobs = numbered(n * 1000);
        const struct hk_policy *before = hk_policy_now;
        assert_true(hk_policy_publish(&knobs, HK_PHASE_BURST));
        assert_ptr_not_equal(hk_policy_now, before);
        assert_in_force(n * 1000);
    }
    assert_int_equal(fake_os_calls(FAKE_MAP), 1);
}

static void on_fault(int number)
{
    (void)number;
    _exit(0);
}

UNIT_TEST(nobody_writes_to_a_page)
{
    fake_os_reset();
    struct hk_knobs knobs = numbered(5);
    assert_true(hk_policy_publish(&knobs, HK_PHASE_BURST));
    signal(SIGSEGV, on_fault);
    ((struct hk_policy *)(uintptr_t)hk_policy_now)->xvalue[0] = 1;
    fail_msg("written");
}

UNIT_TEST(refusals_leave_the_policy_before)
{
    fake_os_reset();
    struct hk_knobs first = numbered(10), second = numbered(20);
    fake_os_refuse(fake_refuse_map);
    hk_policy_begin();
    uint64_t delay = HK_POLICY(purge_delay);
    assert_false(hk_policy_publish(&first, HK_PHASE_BURST));
    assert_int_equal(HK_POLICY(purge_delay), delay);
    fake_os_refuse(fake_refuse_seal); /* If the system refuses to seal the page, the policy is in force anyway. */
    for (int i = 0; i < 2 * HK_POLICY_PAGES; i++)
        assert_true(hk_policy_publish(&second, HK_PHASE_BURST));
    assert_in_force(20);
}

static const struct hk_policy *read_still;

static bool refuse_to_unseal(void *p, size_t size)
{
    (void)p;
    (void)size;
    return false;
}

/* The program has entered a sandbox. A thread that still reads an old page must find a valid policy there, after each publication. */
UNIT_TEST(a_page_that_stays_sealed_is_left)
{
    fake_os_reset();
    struct hk_knobs first = numbered(10), second = numbered(20);
    for (int i = 0; i < HK_POLICY_PAGES; i++) {
        assert_true(hk_policy_publish(&first, HK_PHASE_BURST));
        read_still = i == 0 ? hk_policy_now : read_still;
    }
    hk_os.unseal = refuse_to_unseal;
    fake_os_refuse(fake_refuse_map);
    bool published = hk_policy_publish(&second, HK_PHASE_BURST);
    assert_false(published);
    assert_in_force(10);
    fake_os_refuse(NULL);
    for (int i = 0; i < 3 * HK_POLICY_PAGES; i++)
        assert_true(hk_policy_publish(&second, HK_PHASE_BURST));
    assert_in_force(20);
    assert_int_equal(hk_load(read_still->xvalue[0]), 10);
    assert_int_equal(fake_os_calls(FAKE_MAP), 1);
}

/* HAKMEM_THP decides instead of the thresholds. */
UNIT_TEST(huge_pages_by_option)
{
    hk_options.huge_pages_from = hk_options.huge_blocks_from = 12345678;
    hk_policy_begin();
    assert_int_equal(HK_POLICY(huge_pages_from), 12345678);
    hk_options.thp = HK_THP_ON;
    hk_policy_begin();
    assert_int_equal(HK_POLICY(huge_pages_from), 1);
    assert_int_equal(HK_POLICY(huge_blocks_from), 2 * HK_MIB);
    hk_options.thp = HK_THP_OFF;
    hk_policy_begin();
    assert_int_equal(HK_POLICY(huge_pages_from) + HK_POLICY(huge_blocks_from), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(begins_as_the_options_say),        cmocka_unit_test(each_page_holds_one_policy),
        cmocka_unit_test(nobody_writes_to_a_page),          cmocka_unit_test(refusals_leave_the_policy_before),
        cmocka_unit_test(a_page_that_stays_sealed_is_left), cmocka_unit_test(huge_pages_by_option),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
