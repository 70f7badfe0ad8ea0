/* Tests the transitions of the background thread's state. No notification may be lost between a round and the sleep that follows it. */
#include "unit/unit.h"

#include <pthread.h>

#include "os/os.h"
#include "policy/options.h"
#include "decay/background_state.h"

#define WORTH (32 * HK_MIB)

static void expect(enum hk_background_states state) { assert_int_equal(hk_load(hk_background_state), state); }

static unsigned wakes;
static void count_wake(_Atomic uint32_t *word, int count)
{
    assert_ptr_equal(word, &hk_background_state);
    assert_int_equal(count, 1);
    wakes++;
}

UNIT_TEST(wanted)
{
    hk_background_notify(WORTH - 1);
    assert_false(hk_mode_has(HK_MODE_WAKE));
    hk_background_notify(WORTH);
    assert_true(hk_mode_has(HK_MODE_WAKE));
    hk_background_state_begin();
    assert_false(hk_mode_has(HK_MODE_WAKE));
    hk_background_notify(WORTH);
    assert_false(hk_mode_has(HK_MODE_WAKE));
    hk_background_state_end();
    hk_options.background = HK_BACKGROUND_ON;
    hk_background_notify(8 * HK_MIB - 1);
    assert_false(hk_mode_has(HK_MODE_WAKE));
    hk_background_notify(8 * HK_MIB);
    assert_true(hk_mode_has(HK_MODE_WAKE));
}

UNIT_TEST(works)
{
    assert_false(hk_background_works());
    hk_background_state_begin();
    assert_true(hk_background_works());
    assert_true(hk_background_before_round());
    assert_true(hk_background_works());
    hk_background_leave();
    assert_false(hk_background_works());
    hk_background_state_end();
    expect(HK_BACKGROUND_ABSENT);
}

/* A notification during a round of the background thread needs no system call because the thread checks the state before it sleeps. */
UNIT_TEST(notified_in_a_round)
{
    hk_os.futex_wake = count_wake;
    hk_background_state_begin();
    assert_true(hk_background_before_round());
    expect(HK_BACKGROUND_IN_ROUND);
    assert_false(hk_background_before_round());
    hk_background_notify(WORTH - 1);
    expect(HK_BACKGROUND_IN_ROUND);
    hk_background_notify(WORTH);
    expect(HK_BACKGROUND_AWAKE);
    hk_background_sleep();
    expect(HK_BACKGROUND_AWAKE);
    assert_true(hk_background_before_round());
    assert_int_equal(wakes, 0);
}

static void notify_it(_Atomic uint32_t *word, uint32_t expected)
{
    assert_ptr_equal(word, &hk_background_state);
    assert_int_equal(expected, HK_BACKGROUND_ASLEEP);
    expect(HK_BACKGROUND_ASLEEP);
    assert_false(hk_background_works());
    hk_background_notify(WORTH - 1);
    expect(HK_BACKGROUND_ASLEEP);
    hk_background_notify(WORTH);
    hk_background_notify(WORTH);
}

UNIT_TEST(notified_asleep)
{
    hk_os.futex_wake = count_wake;
    hk_os.futex_wait = notify_it;
    hk_background_state_begin();
    hk_background_before_round();
    hk_background_sleep();
    expect(HK_BACKGROUND_AWAKE);
    assert_int_equal(wakes, 1);
}

static unsigned waits;
static void wake_spuriously(_Atomic uint32_t *word, uint32_t expected)
{
    (void)word;
    (void)expected;
    if (++waits == 3)
        hk_background_force();
}

UNIT_TEST(spurious_wakeup)
{
    hk_os.futex_wait = wake_spuriously;
    hk_background_state_begin();
    hk_background_before_round();
    hk_background_sleep();
    assert_int_equal(waits, 3);
}

static void leave_while(_Atomic uint32_t *word, uint32_t expected, uint64_t ms)
{
    assert_int_equal(hk_load(*word), expected);
    assert_in_range(ms, 1, 1000);
    if (++waits == 2)
        hk_background_leave();
    else
        hk_background_notify(WORTH);
    fake_os_pass_ms(100);
}

/* A notification does not wake a thread that rests for a fixed time. hk_background_leave() wakes it, and the state does not change afterwards. */
UNIT_TEST(rests)
{
    unit_start();
    hk_os.futex_wait_for = leave_while;
    hk_background_state_begin();
    hk_background_before_round();
    hk_background_rest(1000);
    assert_int_equal(waits, 2);
    assert_true(hk_background_is_leaving());
    hk_background_notify(WORTH);
    hk_background_force();
    hk_background_before_round();
    hk_background_sleep();
    hk_background_rest(1000);
    expect(HK_BACKGROUND_LEAVING);
    assert_int_equal(waits, 2);
}

/* A mailbox stands for the heap. The sender of each letter notifies the thread, which sleeps whenever it finds no letter. Every letter must be
 * found. */
enum { LETTERS = 20000 };
static _Atomic unsigned xletters;
static unsigned found;

static void *look_and_sleep(void *unused)
{
    while (found < LETTERS && !hk_background_is_leaving()) {
        (void)hk_background_before_round();
        unsigned letters = atomic_exchange(&xletters, 0);
        found += letters;
        if (letters == 0)
            hk_background_sleep();
    }
    return unused;
}

UNIT_TEST(nothing_is_lost)
{
    pthread_t thread;
    hk_background_state_begin();
    assert_int_equal(pthread_create(&thread, NULL, look_and_sleep, NULL), 0);
    for (unsigned i = 0; i < LETTERS; i++) {
        atomic_fetch_add(&xletters, 1);
        hk_background_notify(WORTH);
    }
    pthread_join(thread, NULL);
    assert_int_equal(found, LETTERS);
}

/* hk_background_leave() wakes a thread that sleeps without a time limit, so that it can end. */
UNIT_TEST(leaves_asleep)
{
    hk_os.futex_wake = count_wake;
    hk_background_state_begin();
    assert_true(hk_background_before_round());
    hk_store(hk_background_state, HK_BACKGROUND_ASLEEP);
    wakes = 0;
    hk_background_leave();
    assert_int_equal(wakes, 1);
    assert_true(hk_background_is_leaving());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wanted),          cmocka_unit_test(works),           cmocka_unit_test(notified_in_a_round),
        cmocka_unit_test(notified_asleep), cmocka_unit_test(spurious_wakeup), cmocka_unit_test(rests),
        cmocka_unit_test(nothing_is_lost), cmocka_unit_test(leaves_asleep)};
    return cmocka_run_group_tests_name("wake", tests, NULL, NULL);
}
