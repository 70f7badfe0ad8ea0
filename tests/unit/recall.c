/* Tests that a thread can take the free blocks of another thread's bins, and that the other thread goes on without losing or doubling a block. */
#include "unit/unit.h"

#include <pthread.h>
#include <semaphore.h>

#include "hakmem.h"
#include "slab/outbox.h"
#include "tcache/tcache.h"

enum { CLASS = CLASS_OF_64, BLOCKS = 100, MANY = 1000, MEDIUM = 65536 };

static sem_t parked, go_on;
static struct hk_tcache *sleeper;
static void *blocks[MANY];

static void park(void)
{
    sem_post(&parked);
    while (sem_wait(&go_on) != 0) {}
}

static struct hk_bin *bin(void) { return &sleeper->hot.bins[CLASS]; }

static void fill_bin(void)
{
    hak_free(hak_malloc(1)); /* begins a cache */
    sleeper = hk_tcache_self();
    for (unsigned i = 0; i < BLOCKS; i++)
        assert_non_null(blocks[i] = hak_malloc(64));
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
}

/* Allocates many blocks, which must all be different and differ from `other`, and frees them. */
static void use(const void *other)
{
    for (unsigned i = 0; i < MANY; i++) {
        assert_non_null(blocks[i] = hak_malloc(64));
        assert_ptr_not_equal(blocks[i], other);
        memset(blocks[i], 0, 64);
        *(unsigned *)blocks[i] = i;
    }
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(*(unsigned *)blocks[i], i);
    for (unsigned i = 0; i < MANY; i++)
        hak_free(blocks[i]);
}

/* Runs `sleeps` in a thread. When this thread parks, runs `meanwhile`, and wakes the thread. */
static void beside(void *(*sleeps)(void *), void (*meanwhile)(void))
{
    pthread_t thread;
    unit_start();
    hk_slab_lists_shared = true;
    assert_non_null(hak_malloc(1));
    sem_init(&parked, 0, 0);
    sem_init(&go_on, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, sleeps, NULL), 0);
    while (sem_wait(&parked) != 0) {}
    meanwhile();
    assert_int_equal(hk_gate.sizes_below, HK_FINE_MAX + 1);
    sem_post(&go_on);
    pthread_join(thread, NULL);
    unit_heap_holds(1);
}

static void recall(void)
{
    fake_os_refuse(NULL);
    (void)hk_tcaches_recall(true);
}

static void recall_all_but_one(void)
{
    size_t before = hk_bin_blocks(sleeper, CLASS);
    assert_true(before > 10);
    recall();
    assert_int_equal(hk_bin_blocks(sleeper, CLASS), 1);
    assert_int_equal(hk_bin_items(bin()), before);
    recall();
    assert_int_equal(hk_bin_blocks(sleeper, CLASS), 1);
}

static void *sleeps_between_calls(void *unused)
{
    fill_bin();
    park();
    void *newest = *bin()->top;
    assert_ptr_equal(hak_malloc(64), newest);
    assert_int_equal(hk_bin_blocks(sleeper, CLASS), 0);
    use(newest);
    hak_free(newest);
    hk_tcache_end();
    return unused;
}

UNIT_TEST(all_but_the_newest) { beside(sleeps_between_calls, recall_all_but_one); }

/* The hit has loaded the newest block before the recall, and stores `top` after it. */
static void *sleeps_in_a_hit(void *unused)
{
    fill_bin();
    void **top = bin()->top, *block = *top;
    park();
    bin()->top = top - 1;
    use(block);
    hak_free(block);
    hk_tcache_end();
    return unused;
}

UNIT_TEST(while_a_hit_is_on_its_way) { beside(sleeps_in_a_hit, recall_all_but_one); }

/* Frees are hits during a recall. They go above the items that the recall takes, and make the bin overflow while it has holes. */
static void *sleeps_and_frees(void *unused)
{
    static void *live[MANY];
    for (unsigned i = 0; i < MANY; i++)
        assert_non_null(live[i] = hak_malloc(64));
    fill_bin();
    park();
    for (unsigned i = 0; i < MANY; i++)
        hak_free(live[i]);
    assert_int_equal(hk_load(sleeper->xholes[CLASS]), 0);
    use(NULL);
    hk_tcache_end();
    return unused;
}

UNIT_TEST(frees_above_the_holes) { beside(sleeps_and_frees, recall_all_but_one); }

/* The question whether a block should move is a slow call. It returns blocks of the bin to their slabs, and so must not meet a hole. */
static void *sleeps_and_asks(void *unused)
{
    void *live = hak_malloc(64);
    fill_bin();
    park();
    (void)hak_should_move(live);
    assert_int_equal(hk_load(sleeper->xholes[CLASS]), 0);
    use(live);
    hak_free(live);
    hk_tcache_end();
    return unused;
}

UNIT_TEST(asks_to_move) { beside(sleeps_and_asks, recall_all_but_one); }

static void recall_nothing(void)
{
    size_t before = hk_bin_blocks(sleeper, CLASS);
    recall();
    assert_int_equal(hk_bin_blocks(sleeper, CLASS), before);
    assert_false(hk_load(sleeper->xtaken));
}

static void *sleeps_in_a_slow_call(void *unused)
{
    fill_bin();
    hk_tcache_enter(sleeper);
    park();
    hk_tcache_leave(sleeper);
    use(NULL);
    hk_tcache_end();
    return unused;
}

UNIT_TEST(not_from_a_slow_call) { beside(sleeps_in_a_slow_call, recall_nothing); }

static void recall_without_fence(void)
{
    fake_os_refuse(fake_refuse_fence);
    (void)hk_tcaches_recall(true);
    assert_true(hk_bin_blocks(sleeper, CLASS) > 10);
    fake_os_refuse(NULL);
}

UNIT_TEST(not_without_a_fence) { beside(sleeps_and_frees, recall_without_fence); }

/* Only threads that have not read the clock for a while are asleep. Afterwards no cache is left to be recalled. */
static void recall_if_asleep(void)
{
    fake_os_refuse(NULL);
    hk_store(sleeper->owner.xawake, hk_os.clock_ms());
    assert_true(hk_tcaches_recall(false));
    assert_true(hk_bin_blocks(sleeper, CLASS) > 10);
    fake_os_pass_ms(10000);
    assert_false(hk_tcaches_recall(false));
    assert_int_equal(hk_bin_blocks(sleeper, CLASS), 1);
}

UNIT_TEST(asleep) { beside(sleeps_between_calls, recall_if_asleep); }

/* The magazines of the depot are recalled too, and medium blocks. */
static void *sleeps_with_a_depot(void *unused)
{
    static void *live[8 * MANY], *medium[8];
    hak_free(hak_malloc(1)); /* begins a cache */
    sleeper = hk_tcache_self();
    for (unsigned i = 0; i < 8 * MANY; i++)
        live[i] = hak_malloc(64);
    for (unsigned i = 0; i < 8; i++)
        medium[i] = hak_malloc(MEDIUM);
    for (unsigned i = 0; i < 8; i++)
        hak_free(medium[i]);
    for (unsigned i = 0; i < 8 * MANY; i++)
        hak_free(live[i]);
    park();
    for (unsigned i = 0; i < 8; i++)
        assert_non_null(memset(medium[i] = hak_malloc(MEDIUM), (int)i, MEDIUM));
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(((char *)medium[i])[MEDIUM - 1], i);
    for (unsigned i = 0; i < 8; i++)
        hak_free(medium[i]);
    use(NULL);
    hk_tcache_end();
    return unused;
}

static void recall_depot(void)
{
    assert_true(sleeper->depot.bytes > 0);
    recall();
    assert_int_equal(sleeper->depot.bytes, 0);
    assert_true(hk_bin_blocks(sleeper, CLASS_OF_65536) <= 1);
}

UNIT_TEST(depot_and_medium_blocks) { beside(sleeps_with_a_depot, recall_depot); }

/* A thread that ends the program in a recall leaves the cache taken. The cache's thread still allocates, for example to report the crash. */
static void *reports_a_crash(void *unused)
{
    fill_bin();
    park();
    hk_store(sleeper->xtaken, true);
    hk_store(hk_is_aborting, true);
    use(NULL);
    hk_store(hk_is_aborting, false);
    hk_store(sleeper->xtaken, false);
    hk_tcache_end();
    return unused;
}

UNIT_TEST(not_while_aborting) { beside(reports_a_crash, recall_all_but_one); }

static _Atomic bool x_stop;

static void *opens_and_shuts(void *unused)
{
    while (!hk_load(x_stop)) {
        hk_gate_shut(HK_SHUT_IN_ROUND);
        hk_gate_release(HK_SHUT_IN_ROUND);
    }
    return unused;
}

/* The gate stays shut for a recall, even if other threads change other reasons to shut it. */
UNIT_TEST(gate_stays_shut)
{
    enum { THREADS = 2, LOOKS = 400000 };
    pthread_t threads[THREADS];
    unit_start();
    hk_store(x_stop, false);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, opens_and_shuts, NULL), 0);
    for (unsigned i = 0; i < LOOKS; i++) {
        if (i % 4 == 0)
            hk_gate_shut(HK_SHUT_RECALL);
        assert_int_equal(__atomic_load_n(&hk_gate.sizes_below, __ATOMIC_ACQUIRE), 0);
        assert_true(hk_mode_has(HK_MODE_RECALL));
        if (i % 4 == 3)
            hk_gate_release(HK_SHUT_RECALL);
    }
    hk_store(x_stop, true);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(hk_gate.sizes_below, HK_FINE_MAX + 1);
}

static void *uses(void *unused)
{
    void *own[64] = {NULL};
    uint64_t random = (uintptr_t)own;
    for (unsigned n = 0; !hk_load(x_stop) || n < 20000; n++) {
        random = hk_random_next(random);
        unsigned at = random % 64, size = 16 + (unsigned)(random >> 32) % 1000;
        assert_true(own[at] == NULL || *(unsigned *)own[at] == at);
        hak_free(own[at]);
        own[at] = hak_malloc(size);
        memset(own[at], 1, size);
        *(unsigned *)own[at] = at;
    }
    for (unsigned at = 0; at < 64; at++)
        hak_free(own[at]);
    hk_tcache_end();
    return unused;
}

/* Threads allocate and free while another one recalls their blocks without a pause. */
UNIT_TEST(from_busy_threads)
{
    enum { THREADS = 3, RECALLS = 2000 };
    pthread_t threads[THREADS];
    unit_start();
    fake_os_refuse(NULL);
    hk_slab_lists_shared = true;
    hk_store(x_stop, false);
    assert_non_null(hak_malloc(1));
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, uses, NULL), 0);
    for (unsigned i = 0; i < RECALLS; i++)
        (void)hk_tcaches_recall(true);
    hk_store(x_stop, true);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    unit_heap_holds(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_but_the_newest),
        cmocka_unit_test(while_a_hit_is_on_its_way),
        cmocka_unit_test(frees_above_the_holes),
        cmocka_unit_test(not_from_a_slow_call),
        cmocka_unit_test(not_without_a_fence),
        cmocka_unit_test(asleep),
        cmocka_unit_test(depot_and_medium_blocks),
        cmocka_unit_test(from_busy_threads),
        cmocka_unit_test(gate_stays_shut),
        cmocka_unit_test(not_while_aborting),
        cmocka_unit_test(asks_to_move),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
