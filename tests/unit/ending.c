/* Tests the end of a thread's cache. The thread itself, another thread that reaps the cache, or a fork child can end it. */
#include "unit/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hakmem.h"
#include "tcache/tcache.h"

enum { BLOCKS = 100 };

static void *blocks[BLOCKS];

static uint64_t counted(enum hk_stat stat) { return hk_load(hk_global_counts[stat]); }

static void allocate_and_free_half(void)
{
    for (unsigned i = 0; i < BLOCKS; i++)
        assert_non_null(blocks[i] = hak_malloc(64));
    for (unsigned i = BLOCKS / 2; i < BLOCKS; i++)
        hak_free(blocks[i]);
}

static void end_twice(void *unused)
{
    (void)unused;
    allocate_and_free_half();
    hk_tcache_end();
    assert_ptr_equal(hk_self, &hk_thread_ended.hot);
    assert_null(hk_hit_malloc(64));
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        assert_int_equal(hk_bin_capacity(&hk_thread_ended.hot.bins[class]), 0);
    hk_tcache_end(); /* A second hk_tcache_end() of the same thread has no effect. */
    assert_true(hk_tcache_ended());
}

/* The first thread that ends shuts the bins of hk_thread_ended. The second thread that ends must find the bins shut and empty. */
UNIT_TEST(threads_end)
{
    unit_start();
    for (unsigned i = 1; i <= 2; i++) {
        unit_in_thread(end_twice, NULL);
        assert_int_equal(counted(HK_GLOBAL_threads_ended), i);
        assert_int_equal(hk_tcaches_alive(), 1);
        unit_heap_holds(BLOCKS / 2);
        for (unsigned b = 0; b < BLOCKS / 2; b++)
            hak_free(blocks[b]);
        hak_malloc_trim(0);
        unit_heap_holds(0);
    }
}

/* Begins a cache without the thread key, so that no destructor ends the cache. */
static void vanish(void *unused)
{
    (void)unused;
    assert_true(hk_tcache_begin());
    allocate_and_free_half();
}

UNIT_TEST(vanished_thread_is_reaped)
{
    unit_start();
    assert_false(hk_tcaches_reap(UINT32_MAX));
    unit_in_thread(vanish, NULL);
    assert_int_equal(hk_tcaches_alive(), 2);
    assert_false(hk_tcaches_reap(0));
    assert_true(hk_tcaches_reap(UINT32_MAX));
    assert_int_equal(hk_tcaches_alive(), 1);
    assert_int_equal(counted(HK_GLOBAL_threads_ended), 1);
    assert_false(hk_tcaches_reap(UINT32_MAX));
    unit_heap_holds(BLOCKS / 2);
}

static atomic_int stage;

static void *wait_with_blocks(void *unused)
{
    allocate_and_free_half();
    atomic_store(&stage, 1);
    while (atomic_load(&stage) == 1)
        usleep(1000);
    return unused;
}

static void child_has_one_cache(void)
{
    assert_int_equal(hk_tcaches_alive(), 1);
    uint64_t stranded = counted(HK_GLOBAL_fork_stranded);
    assert_true(stranded >= BLOCKS / 2 && stranded < 2 * HK_MAGAZINE_BLOCKS);
    for (unsigned i = 0; i < BLOCKS / 2; i++)
        hak_free(blocks[i]);
    allocate_and_free_half(); /* This call takes some of its blocks from the abandoned slab. */
}

UNIT_TEST(fork_child_has_one_cache)
{
    pthread_t thread;
    int status = -1;
    unit_start();
    assert_int_equal(pthread_create(&thread, NULL, wait_with_blocks, NULL), 0);
    while (atomic_load(&stage) == 0)
        usleep(1000);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        child_has_one_cache();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(hk_tcaches_alive(), 2);
    assert_int_equal(counted(HK_GLOBAL_fork_stranded), 0);
    atomic_store(&stage, 2);
    pthread_join(thread, NULL);
    unit_heap_holds(BLOCKS / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_end),
        cmocka_unit_test(vanished_thread_is_reaped),
        cmocka_unit_test(fork_child_has_one_cache),
    };
    return cmocka_run_group_tests_name("ending", tests, NULL, NULL);
}
