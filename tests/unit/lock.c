/* Tests mutual exclusion, sleeping and waking, the ranks of locks, and the reset in a fork child. */
#include "unit/unit.h"

#include <pthread.h>
#include <unistd.h>

#include "base/lock.h"

enum { THREADS = 4, ROUNDS = 20000 };

static struct hk_lock lock = HK_LOCK_INIT(HK_RANK_LARGE);
static struct hk_lock higher = HK_LOCK_INIT(HK_RANK_PAGE_HEAP);
static uint64_t counter; /* The counter is not atomic because the lock protects it. */

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

/* If the state of the lock says that a thread waits, the waiter sleeps or is about to sleep. */
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
    assert_true(hk_lock_is_in_order(lock.rank) && hk_lock_is_in_order(higher.rank));
    hk_lock(&higher);
    assert_false(hk_lock_is_in_order(lock.rank));
    hk_unlock(&lock);
    hk_unlock(&higher);
    unit_dies(take_in_wrong_order, NULL, "hakmem: assertion failed: hk_lock_is_in_order(rank)");
    unit_dies(drop_what_is_not_held, NULL, "hakmem: assertion failed: held_ranks[");
}

/* A fork takes one lock of most ranks, and the four locks in `several` of one rank. */
enum { SEVERAL = 4 };
static struct hk_lock one[HK_RANKS], several[SEVERAL];

static void register_all(void)
{
#define RESET(which)
#define TAKEN(which)                                                                                                   \
    one[which].rank = which;                                                                                           \
    hk_lock_register(which, &one[which]);
#define HK_RANK(name, at_fork, whose) at_fork(HK_RANK_##name)
#include "base/ranks.def"
    for (unsigned i = 0; i < SEVERAL; i++)
        several[i].rank = HK_RANK_ABANDONED;
    hk_lock_register(HK_RANK_ABANDONED, several);
    hk_lock_register_more(HK_RANK_ABANDONED, SEVERAL - 1, sizeof several[0]);
}

static unsigned held(void)
{
    unsigned count = 0;
    for (unsigned rank = 0; rank < HK_RANKS; rank++)
        count += hk_load(one[rank].xstate) != 0;
    for (unsigned i = 0; i < SEVERAL; i++)
        count += hk_load(several[i].xstate) != 0;
    return count;
}

/* Locks must be taken in ascending rank, because any other order is fatal. The lock for abandoned slabs in `one` is not taken because the locks
 * in `several` replace it. The locks of owners are not taken either. */
UNIT_TEST(fork_takes_all_that_are_registered)
{
    register_all();
    hk_locks_take_all();
    assert_int_equal(held(), HK_RANKS - 1 - 1 - 2 + SEVERAL);
    assert_int_equal(hk_load(one[HK_RANK_DRAIN].xstate), 0);
    hk_locks_drop_all();
    assert_int_equal(held(), 0);
    hk_lock(&lock); /* No lock is held any more, so a lower rank may be taken. */
    hk_unlock(&lock);
}

static void take_all(void *unused)
{
    (void)unused;
    hk_locks_take_all();
}

UNIT_TEST(what_is_registered_amiss_is_noticed)
{
    register_all();
    hk_lock_register(HK_RANK_LARGE, NULL); /* A lock is missing. */
    unit_dies(take_all, NULL, "hakmem: assertion failed: is_registered_right (");
    register_all();
    hk_lock_register(HK_RANK_META, &higher); /* `higher` is a lock of another rank. */
    unit_dies(take_all, NULL, "hakmem: assertion failed: lock_at(");
    register_all();
    /* Locks of the rank DRAIN belong to owners, and must not be registered. */
    hk_lock_register(HK_RANK_DRAIN, &one[HK_RANK_DRAIN]);
    unit_dies(take_all, NULL, "hakmem: assertion failed: is_registered_right (");
}

UNIT_TEST(reset_in_a_child)
{
    register_all();
    hk_lock_register(HK_RANK_PAGE_HEAP, &higher);
    hk_locks_take_all();
    hk_store(higher.xstate, 2); /* Simulates a thread that waited in the parent. */
    hk_store(several[1].xstate, 2);
    hk_locks_reset_all();
    assert_int_equal(held(), 0);
    assert_int_equal(hk_load(higher.xstate), 0);
    hk_lock(&lock);
    hk_unlock(&lock);
    unit_in_thread(count_once, NULL);
    assert_int_equal(counter, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(excludes),
        cmocka_unit_test(sleeps_and_wakes),
        cmocka_unit_test(try_lock),
        cmocka_unit_test(ranks),
        cmocka_unit_test(fork_takes_all_that_are_registered),
        cmocka_unit_test(what_is_registered_amiss_is_noticed),
        cmocka_unit_test(reset_in_a_child),
    };
    return cmocka_run_group_tests_name("lock", tests, NULL, NULL);
}
