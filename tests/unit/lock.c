/* Lock: mutual exclusion, sleeping and waking, ranks, and the reset of a fork child. */
#include "unit/unit.h"

#include <pthread.h>
#include <unistd.h>

#include "base/lock.h"

enum { THREADS = 4, ROUNDS = 20000 };

static struct hk_lock lock = HK_LOCK_INIT(HK_RANK_BIG);
static struct hk_lock higher = HK_LOCK_INIT(HK_RANK_RUNS);
static uint64_t counter; /* plain on purpose: the lock is what makes it right */

static void *count_up(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) {
        hk_lock(&lock);
        counter++;
        hk_unlock(&lock);
    }
    return unused;
}

UNIT_TEST(excludes)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(counter, THREADS * ROUNDS);
    assert_int_equal(hk_load(lock.xstate), 0);
}

static void count_once(void *unused)
{
    (void)unused;
    hk_lock(&lock);
    counter++;
    hk_unlock(&lock);
}

static void *wait_for_lock(void *unused)
{
    count_once(NULL);
    return unused;
}

/* The waiter has gone to sleep, or is about to, once the state says that somebody waits. */
UNIT_TEST(sleeps_and_wakes)
{
    pthread_t waiter;
    hk_lock(&lock);
    assert_int_equal(pthread_create(&waiter, NULL, wait_for_lock, NULL), 0);
    while (hk_load(lock.xstate) != 2)
        usleep(100);
    assert_int_equal(counter, 0);
    hk_unlock(&lock);
    pthread_join(waiter, NULL);
    assert_int_equal(counter, 1);
}

static void must_not_get_it(void *unused)
{
    (void)unused;
    assert_false(hk_try_lock(&lock));
}

UNIT_TEST(try_lock)
{
    assert_true(hk_try_lock(&lock));
    unit_in_thread(must_not_get_it, NULL);
    hk_unlock(&lock);
    unit_in_thread(count_once, NULL);
    assert_int_equal(counter, 1);
}

static void take_in_wrong_order(void *unused)
{
    (void)unused;
    hk_lock(&higher);
    hk_lock(&lock);
}

static void drop_what_is_not_held(void *unused)
{
    (void)unused;
    hk_unlock(&lock);
}

UNIT_TEST(ranks)
{
    hk_lock(&lock);
    hk_lock(&higher);
    hk_unlock(&lock);
    hk_unlock(&higher);
    unit_dies(take_in_wrong_order, NULL, "hakmem: assertion failed: held_ranks[");
    unit_dies(drop_what_is_not_held, NULL, "hakmem: assertion failed: held_ranks[");
}

UNIT_TEST(reset)
{
    hk_lock(&lock);
    hk_store(lock.xstate, 2); /* as if somebody had waited in the parent */
    hk_lock_reset(&lock);
    unit_in_thread(count_once, NULL);
    assert_int_equal(counter, 1);
}

UNIT_TEST(reset_drops_the_rank)
{
    hk_lock(&higher);
    hk_lock_reset(&higher);
    hk_lock(&lock);
    hk_unlock(&lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(excludes), cmocka_unit_test(sleeps_and_wakes),
        cmocka_unit_test(try_lock), cmocka_unit_test(ranks),
        cmocka_unit_test(reset),    cmocka_unit_test(reset_drops_the_rank),
    };
    return cmocka_run_group_tests_name("lock", tests, NULL, NULL);
}
