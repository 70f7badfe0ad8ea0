/* Tests a start that fails and is tried again, the caches of threads, and the state of a fork child. */
#include "unit/unit.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hakmem.h"
#include "runtime/lifecycle.h"

enum { COUNT = 500 };
static void *blocks[COUNT];

static uint64_t refused_call;

static bool refuse_one(enum fake_call call, uint64_t ordinal)
{
    (void)call;
    return ordinal == refused_call;
}

UNIT_TEST(starts_when_it_can)
{
    fake_os_refuse(fake_refuse_all);
    for (int i = 0; i < 3; i++) {
        errno = 0;
        assert_null(hak_malloc(10));
        assert_int_equal(errno, ENOMEM);
        assert_int_equal(hak_malloc_trim(0), 0);
        hak_free(NULL);
    }
    assert_false(hk_started());
    fake_os_refuse(NULL);
    void *block = hak_malloc(10);
    assert_non_null(block);
    assert_true(hk_started());
    assert_non_null(hk_tcache_get());
    hak_free(block);
    unit_heap_holds(0);
}

static void start_with_one_refused(void)
{
    fake_os_refuse(refuse_one);
    void *block = hak_malloc(100);
    if (block == NULL)
        block = hak_malloc(100);
    assert_non_null(block);
    hak_free(block);
    unit_heap_holds(0);
}

static void forked(void (*body)(void))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        body();
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

UNIT_TEST(any_step_of_the_start_may_fail)
{
    for (refused_call = 1; refused_call <= 20; refused_call++)
        forked(start_with_one_refused);
}

static void use_a_little(void *unused)
{
    (void)unused;
    hak_free(hak_malloc(100));
    assert_non_null(hk_tcache_self());
}

UNIT_TEST(threads)
{
    unit_start();
    for (int i = 0; i < 10; i++)
        unit_in_thread(use_a_little, NULL);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_threads_started]), 11);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_threads_ended]), 10);
    assert_int_equal(hk_owner_end(), HK_FIRST_OWNER + 2);
}

static pthread_key_t last_key;

static void allocate_in_the_last_round(void *value)
{
    if ((uintptr_t)value < PTHREAD_DESTRUCTOR_ITERATIONS)
        pthread_setspecific(last_key, (void *)((uintptr_t)value + 1));
    else
        blocks[0] = hak_malloc(100);
}

static void enter_last_round(void *unused)
{
    (void)unused;
    pthread_setspecific(last_key, (void *)1);
}

static void gone_in_the_last_round(void)
{
    assert_int_equal(pthread_key_create(&last_key, allocate_in_the_last_round), 0);
    for (int i = 1; i <= 10; i++) {
        unit_in_thread(enter_last_round, NULL);
        assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_threads_ended]), i - 1);
        hak_malloc_trim(0);
        assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_threads_ended]), i);
        assert_int_equal(hk_tcaches_alive(), 1);
        unit_heap_holds(1);
        hak_free(blocks[0]);
        hak_malloc_trim(0);
        unit_heap_holds(0);
    }
    assert_int_equal(hk_owner_end(), HK_FIRST_OWNER + 2);
}

/* HAKMEM is not notified when this thread ends, so another thread has to find its cache. */
UNIT_TEST(a_thread_that_begins_in_the_last_round)
{
#ifdef __SANITIZE_THREAD__
    /* The sanitizer's own destructor has already run, so no call that it intercepts may follow. */
    (void)gone_in_the_last_round;
#else
    unit_start();
    gone_in_the_last_round();
#endif
}

/* Without a thread key, no destructor reports the end of a thread, so another thread has to find its cache. This is reported once. */
static void *use_a_little_and_end(void *unused)
{
    use_a_little(unused);
    return unused;
}

UNIT_TEST(no_thread_key)
{
    static pthread_key_t keys[PTHREAD_KEYS_MAX];
    pthread_t thread;
    unsigned taken = 0;
    while (taken < PTHREAD_KEYS_MAX && pthread_key_create(&keys[taken], NULL) == 0)
        taken++;
    fake_os_capture();
    unit_start();
    assert_non_null(strstr(fake_os.captured, "no thread key is available"));
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(hak_pthread_create(&thread, NULL, use_a_little_and_end, NULL), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_threads_ended]), i - 1);
        hak_malloc_trim(0);
        assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_threads_ended]), i);
    }
    unit_heap_holds(0);
}

static _Atomic int step;

static void step_to(int to) { atomic_store(&step, to); }
static void step_wait(int for_step)
{
    while (atomic_load(&step) != for_step)
        sched_yield();
}

static void *holds_blocks(void *unused)
{
    for (int i = 0; i < COUNT; i++)
        blocks[i] = hak_malloc(64);
    step_to(1);
    step_wait(2);
    return unused;
}

static void free_them(int from, int to)
{
    for (int i = from; i < to; i++)
        hak_free(blocks[i]);
}

/* The fork child has no thread that owns the blocks. Blocks that waited in the forking thread's outbox still become free, and so do blocks that
 * the child frees later. Only the blocks in the owner's bin are lost. */
static size_t in_its_bin;

static void child_without_the_owner(void)
{
    hak_malloc_trim(0);
    unit_heap_holds(COUNT - 10 + in_its_bin);
    free_them(10, COUNT);
    hak_malloc_trim(0);
    unit_heap_holds(in_its_bin);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_fork_stranded]), in_its_bin);
#ifndef __SANITIZE_THREAD__ /* The thread sanitizer cannot start a thread after this fork. */
    unit_in_thread(use_a_little, NULL);
    unit_heap_holds(in_its_bin);
#endif
}

UNIT_TEST(fork_with_another_owner)
{
    static struct hk_heap_stats heap_stats;
    pthread_t thread;
    unit_start();
    assert_int_equal(pthread_create(&thread, NULL, holds_blocks, NULL), 0);
    step_wait(1);
    free_them(0, 10); /* These 10 blocks wait in the forking thread's outbox. */
    hk_heap_stats_take(&heap_stats);
    in_its_bin = heap_stats.sum.in_bins / 64;
    forked(child_without_the_owner);
    free_them(10, COUNT);
    step_to(2);
    pthread_join(thread, NULL);
    hak_malloc_trim(0);
    unit_heap_holds(0);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_forks]), 1);
}

static void child_of_one_thread(void)
{
    free_them(0, 100);
    hak_malloc_trim(0);
    unit_heap_holds(0);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_fork_stranded]), 0);
}

UNIT_TEST(fork_alone)
{
    unit_start();
    for (int i = 0; i < 100; i++)
        blocks[i] = hak_malloc(64);
    forked(child_of_one_thread);
    unit_heap_holds(100);
    free_them(0, 100);
    unit_heap_holds(0);
}

static struct hk_owner *held;

static void *holds_its_inboxes(void *unused)
{
    unit_start();
    held = &hk_tcache_self()->owner;
    hk_lock(&held->drain_lock);
    step_to(1);
    step_wait(2);
    hk_unlock(&held->drain_lock);
    return unused;
}

static void child_without_the_holder(void)
{
    assert_true(hk_try_lock(&held->drain_lock));
    hk_unlock(&held->drain_lock);
    hak_malloc_trim(0);
    unit_heap_holds(0);
}

/* A fork does not wait for a thread that holds the lock of another thread's inboxes. The child has no thread that could unlock it. */
UNIT_TEST(fork_amid_a_drain)
{
    pthread_t thread;
    unit_start();
    assert_int_equal(pthread_create(&thread, NULL, holds_its_inboxes, NULL), 0);
    step_wait(1);
    forked(child_without_the_holder);
    step_to(2);
    pthread_join(thread, NULL);
    unit_heap_holds(0);
}

enum { BOOTY = 3000, BOOTY_SIZE = 1024, LOOT = 1000, FORKS = 40 };
static void *booty[BOOTY];
static _Atomic uint64_t stolen;

static void free_booty(void *unused)
{
    (void)unused;
    for (int i = 0; i < BOOTY; i++)
        hak_free(booty[i]);
}

/* Repeatedly steals blocks from a sleeping thread's inbox and frees them. Each block returns to its slab. */
static void *steals(void *unused)
{
    static void *loot[LOOT];
    unit_start();
    while (atomic_load(&step) != 2) {
        for (int i = 0; i < LOOT; i++)
            loot[i] = hak_malloc(BOOTY_SIZE);
        for (int i = 0; i < LOOT; i++)
            hak_free(loot[i]);
        hak_malloc_trim(0); /* This releases the thread's own slabs, so that it needs blocks again in the next round. */
        atomic_store(&stolen, hk_load(hk_tcache_self()->owner.counts.xvalue[HK_THREAD_remote_stolen]));
    }
    return unused;
}

static size_t live_blocks(void)
{
    static struct hk_heap_stats heap_stats;
    hk_heap_stats_take(&heap_stats);
    return heap_stats.sum.live_blocks;
}

/* The child loses the blocks of the stealing thread, and a slab that this thread was making during the fork. The child keeps its own blocks. */
static void child_of_the_robbed(void)
{
    hak_malloc_trim(0);
    size_t lost = live_blocks();
    assert_in_range(lost, 0, BOOTY + LOOT);
    for (int i = 0; i < BOOTY; i++) {
        assert_non_null(booty[i] = hak_malloc(BOOTY_SIZE));
        memset(booty[i], i, BOOTY_SIZE);
    }
    assert_int_equal(live_blocks(), lost + BOOTY);
    for (int i = 0; i < BOOTY; i++)
        assert_int_equal(((unsigned char *)booty[i])[BOOTY_SIZE - 1], i % 256);
    free_booty(NULL);
    hak_malloc_trim(0);
    assert_int_equal(live_blocks(), lost);
}

UNIT_TEST(fork_amid_theft)
{
    pthread_t thief;
    unit_start();
    for (int i = 0; i < BOOTY; i++)
        booty[i] = hak_malloc(BOOTY_SIZE);
    unit_in_thread(free_booty, NULL);
    fake_os_pass_ms(1000); /* After 1 s without a call, the owner counts as asleep. */
    assert_int_equal(pthread_create(&thief, NULL, steals, NULL), 0);
    for (int i = 0; i < FORKS; i++) {
        uint64_t before = atomic_load(&stolen);
        while (atomic_load(&stolen) == before)
            sched_yield();
        forked(child_of_the_robbed);
    }
    step_to(2);
    pthread_join(thief, NULL);
    hak_malloc_trim(0);
    unit_heap_holds(0);
}

static _Atomic bool births_over;

static void live_a_little(void *unused)
{
    (void)unused;
    unit_start();
    hak_free(hak_malloc(64));
}

static void *bears_threads(void *unused)
{
    while (!atomic_load(&births_over))
        unit_in_thread(live_a_little, NULL);
    return unused;
}

enum { HEIRLOOMS = 600, HEIRLOOM_SIZE = 256 * 1024 }; /* 150 MiB */

static void child_of_a_mother(void)
{
    for (int i = 0; i < 100; i++)
        hak_free(hak_malloc(2 * HK_MIB)); /* Each call is a miss, which reads the clock and the thread's budget. */
    assert_int_equal(hk_tcache_self()->budget, 2 * hk_options.thread_cache);
    hak_malloc_trim(0);
}

/* Threads begin and end while fork copies the memory. The child must count only its own thread, which gets the budget of the whole process. */
UNIT_TEST(fork_amid_births)
{
    pthread_t mother;
    unit_start();
    assert_int_equal(pthread_create(&mother, NULL, bears_threads, NULL), 0);
    for (int i = 0; i < HEIRLOOMS; i++)
        assert_non_null(booty[i] = hak_malloc(HEIRLOOM_SIZE));
    for (int i = 0; i < FORKS; i++)
        forked(child_of_a_mother);
    atomic_store(&births_over, true);
    pthread_join(mother, NULL);
    unit_heap_holds(HEIRLOOMS);
}

/* A thread's cache still exists in the first round of key destructors, in which programs free the thread's objects. */
static void free_and_allocate(void *block)
{
    hak_free(block);
    blocks[0] = hak_malloc(2000);
    blocks[1] = hk_tcache_self() != NULL ? blocks[0] : NULL;
}

static void ends_with_a_block(void *unused)
{
    (void)unused;
    pthread_setspecific(last_key, hak_malloc(100));
}

UNIT_TEST(destructors_have_the_cache)
{
    unit_start();
    assert_int_equal(pthread_key_create(&last_key, free_and_allocate), 0);
    unit_in_thread(ends_with_a_block, NULL);
    assert_non_null(blocks[1]);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_cacheless_calls]), 0);
    hak_free(blocks[0]);
    unit_heap_holds(0);
}

static bool reported(void) { return strstr(fake_os.captured, "where the memory is") != NULL; }

static void end_at_once(void)
{
    fake_os_capture();
    hk_end_at_once();
}

static void end_while_a_lock_is_held(void)
{
    hk_options.report = "-";
    hk_lock(&hk_start_lock);
    end_at_once();
    assert_false(reported());
    hk_unlock(&hk_start_lock);
    hk_lock(&hk_tcache_self()->owner.drain_lock);
    end_at_once();
    assert_false(reported());
    hk_unlock(&hk_tcache_self()->owner.drain_lock);
    end_at_once();
    assert_true(reported());
    end_at_once();
    assert_false(reported());
}

static int another_id(void) { return 1; }

static void end_as_a_vfork_child(void)
{
    hk_options.report = "-";
    hk_os.process_id = another_id;
    end_at_once();
    assert_false(reported());
}

static void end_without_options(void)
{
    end_at_once();
    assert_string_equal(fake_os.captured, "");
}

/* The exit report is written once. It is not written if the ending thread may hold a lock, or if the process shares the memory of its parent. */
UNIT_TEST(the_report_of_an_end_at_once)
{
    unit_start();
    hak_free(hak_malloc(100));
    forked(end_while_a_lock_is_held);
    forked(end_as_a_vfork_child);
    forked(end_without_options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_when_it_can),
        cmocka_unit_test(any_step_of_the_start_may_fail),
        cmocka_unit_test(threads),
        cmocka_unit_test(a_thread_that_begins_in_the_last_round),
        cmocka_unit_test(no_thread_key),
        cmocka_unit_test(the_report_of_an_end_at_once),
        cmocka_unit_test(destructors_have_the_cache),
        cmocka_unit_test(fork_with_another_owner),
        cmocka_unit_test(fork_alone),
        cmocka_unit_test(fork_amid_a_drain),
        cmocka_unit_test(fork_amid_theft),
        cmocka_unit_test(fork_amid_births),
    };
    return cmocka_run_group_tests_name("life", tests, NULL, NULL);
}
