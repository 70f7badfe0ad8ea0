/* Wake: the transitions of the background thread's state; no notification is lost between a round and the sleep after it. */
#include "unit/unit.h"

#include <pthread.h>

#include "os/os.h"
#include "policy/options.h"
#include "decay/wake.h"

#define WORTH (32 * HK_MIB)

static void expect(enum hk_wakefulness state) { assert_int_equal(hk_load(hk_wake_state), state); }

static unsigned wakes;
static void count_wake(_Atomic uint32_t *word, int count)
{
    assert_ptr_equal(word, &hk_wake_state);
    assert_int_equal(count, 1);
    wakes++;
}

UNIT_TEST(wanted)
{
    hk_wake_notify(WORTH - 1);
    assert_false(hk_mode_has(HK_MODE_WAKE));
    hk_wake_notify(WORTH);
    assert_true(hk_mode_has(HK_MODE_WAKE));
    hk_wake_begin();
    assert_false(hk_mode_has(HK_MODE_WAKE));
    hk_wake_notify(WORTH);
    assert_false(hk_mode_has(HK_MODE_WAKE));
    hk_wake_end();
    hk_options.background = HK_BACKGROUND_ON;
    hk_wake_notify(8 * HK_MIB - 1);
    assert_false(hk_mode_has(HK_MODE_WAKE));
    hk_wake_notify(8 * HK_MIB);
    assert_true(hk_mode_has(HK_MODE_WAKE));
}

UNIT_TEST(works)
{
    assert_false(hk_wake_works());
    hk_wake_begin();
    assert_true(hk_wake_works());
    assert_true(hk_wake_before_round());
    assert_true(hk_wake_works());
    hk_wake_leave();
    assert_false(hk_wake_works());
    hk_wake_end();
    expect(HK_WAKE_ABSENT);
}

/* A notification during a round needs no system call: the thread checks the state before it sleeps. */
UNIT_TEST(notified_in_a_round)
{
    hk_os.futex_wake = count_wake;
    hk_wake_begin();
    assert_true(hk_wake_before_round());
    expect(HK_WAKE_DROWSY);
    assert_false(hk_wake_before_round());
    hk_wake_notify(WORTH - 1);
    expect(HK_WAKE_DROWSY);
    hk_wake_notify(WORTH);
    expect(HK_WAKE_AWAKE);
    hk_wake_sleep();
    expect(HK_WAKE_AWAKE);
    assert_true(hk_wake_before_round());
    assert_int_equal(wakes, 0);
}

static void notify_it(_Atomic uint32_t *word, uint32_t expected)
{
    assert_ptr_equal(word, &hk_wake_state);
    assert_int_equal(expected, HK_WAKE_ASLEEP);
    expect(HK_WAKE_ASLEEP);
    assert_false(hk_wake_works());
    hk_wake_notify(WORTH - 1);
    expect(HK_WAKE_ASLEEP);
    hk_wake_notify(WORTH);
    hk_wake_notify(WORTH);
}

UNIT_TEST(notified_asleep)
{
    hk_os.futex_wake = count_wake;
    hk_os.futex_wait = notify_it;
    hk_wake_begin();
    hk_wake_before_round();
    hk_wake_sleep();
    expect(HK_WAKE_AWAKE);
    assert_int_equal(wakes, 1);
}

static unsigned waits;
static void wake_spuriously(_Atomic uint32_t *word, uint32_t expected)
{
    (void)word;
    (void)expected;
    if (++waits == 3)
        hk_wake_force();
}

UNIT_TEST(spurious_wakeup)
{
    hk_os.futex_wait = wake_spuriously;
    hk_wake_begin();
    hk_wake_before_round();
    hk_wake_sleep();
    assert_int_equal(waits, 3);
}

static void leave_while(_Atomic uint32_t *word, uint32_t expected, uint64_t ms)
{
    assert_int_equal(hk_load(*word), expected);
    assert_in_range(ms, 1, 1000);
    if (++waits == 2)
        hk_wake_leave();
    else
        hk_wake_notify(WORTH);
    fake_os_pass_ms(100);
}

/* A notification does not end a rest; hk_wake_leave() does, and is final. */
UNIT_TEST(rests)
{
    unit_start();
    hk_os.futex_wait_for = leave_while;
    hk_wake_begin();
    hk_wake_before_round();
    hk_wake_rest(1000);
    assert_int_equal(waits, 2);
    assert_true(hk_wake_is_leaving());
    hk_wake_notify(WORTH);
    hk_wake_force();
    hk_wake_before_round();
    hk_wake_sleep();
    hk_wake_rest(1000);
    expect(HK_WAKE_LEAVING);
    assert_int_equal(waits, 2);
}

/* A mailbox stands for the heap: each letter notifies, and is found although the thread sleeps when it finds none. */
enum { LETTERS = 20000 };
static _Atomic unsigned xletters;
static unsigned found;

static void *look_and_sleep(void *unused)
{
    while (found < LETTERS && !hk_wake_is_leaving()) {
        (void)hk_wake_before_round();
        unsigned letters = atomic_exchange(&xletters, 0);
        found += letters;
        if (letters == 0)
            hk_wake_sleep();
    }
    return unused;
}

UNIT_TEST(nothing_is_lost)
{
    pthread_t thread;
    hk_wake_begin();
    assert_int_equal(pthread_create(&thread, NULL, look_and_sleep, NULL), 0);
    for (unsigned i = 0; i < LETTERS; i++) {
        atomic_fetch_add(&xletters, 1);
        hk_wake_notify(WORTH);
    }
    pthread_join(thread, NULL);
    assert_int_equal(found, LETTERS);
}

/* A thread that is asleep for good is woken to end. */
UNIT_TEST(leaves_asleep)
{
    hk_os.futex_wake = count_wake;
    hk_wake_begin();
    assert_true(hk_wake_before_round());
    hk_store(hk_wake_state, HK_WAKE_ASLEEP);
    wakes = 0;
    hk_wake_leave();
    assert_int_equal(wakes, 1);
    assert_true(hk_wake_is_leaving());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wanted),          cmocka_unit_test(works),           cmocka_unit_test(notified_in_a_round),
        cmocka_unit_test(notified_asleep), cmocka_unit_test(spurious_wakeup), cmocka_unit_test(rests),
        cmocka_unit_test(nothing_is_lost), cmocka_unit_test(leaves_asleep)};
    return cmocka_run_group_tests_name("wake", tests, NULL, NULL);
}
