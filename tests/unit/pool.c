/* Tests that new threads reuse the caches of ended threads, lowest number first. Idle caches are purged, and their counts are kept. A stale
 * number of an owner must lead to readable memory. */
#include "unit/unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "tcache/pool.h"
#include "runtime/lifecycle.h"
#include "hakmem.h"
#include "os/os.h"
#include "support/knobs.h"
#include "report/heap_stats.h"
#include "span/meta.h"

enum { THREADS = 100, EACH = 7 };

static pthread_barrier_t all_alive;

static void *live(void *unused)
{
    void *block[EACH];
    for (int i = 0; i < EACH; i++)
        block[i] = hak_malloc(112);
    pthread_barrier_wait(&all_alive);
    for (int i = 0; i < EACH; i++)
        hak_free(block[i]);
    return unused;
}

static void live_and_leave(unsigned threads)
{
    pthread_t thread[THREADS];
    assert_int_equal(pthread_barrier_init(&all_alive, NULL, threads), 0);
    for (unsigned i = 0; i < threads; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, live, NULL), 0);
    for (unsigned i = 0; i < threads; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    pthread_barrier_destroy(&all_alive);
}

static void live_and_end(unsigned threads)
{
    live_and_leave(threads);
    hk_tcaches_end_parked(true);
}

static size_t resting(void)
{
    size_t caches = 0;
    for (uint32_t id = HK_FIRST_OWNER; id < hk_owner_end(); id++)
        caches += hk_owner_rests(id);
    return caches;
}

static size_t resident_pages(uint32_t id)
{
    unsigned char pages[8];
    size_t count = 0, bytes = (sizeof(struct hk_tcache) + HK_PAGE - 1) / HK_PAGE * HK_PAGE;
    assert_true(hk_os.resident(hk_tcache_by_id(id), bytes, pages));
    for (size_t i = 0; i < bytes / HK_PAGE; i++)
        count += pages[i] & 1;
    return count;
}

UNIT_TEST(pages_go)
{
    unit_start();
    unit_keep_what_threads_leave();
    live_and_end(THREADS);
    uint32_t last = hk_owner_end() - 1;
    size_t unused = hk_meta_unused();
    assert_int_equal(resting(), 0);
    assert_true(resident_pages(last) > 1);
    assert_true(hk_pool_purge() >= THREADS * sizeof(struct hk_tcache));
    assert_int_equal(resting(), THREADS);
    assert_int_equal(resident_pages(last), 0);
    assert_true(hk_meta_unused() >= unused + THREADS * sizeof(struct hk_tcache));
    assert_int_equal(hk_owner_next(HK_FIRST_OWNER + 1), hk_owner_end());
    assert_int_equal(hk_pool_purge(), 0);
}

/* The same number of threads reuses all caches and makes no new ones. */
UNIT_TEST(taken_again)
{
    unit_start();
    unit_keep_what_threads_leave();
    live_and_end(THREADS);
    uint32_t end = hk_owner_end();
    hk_pool_purge();
    live_and_end(THREADS / 2);
    assert_int_equal(resting(), THREADS / 2);
    assert_false(hk_owner_rests(HK_FIRST_OWNER + 1)); /* The caches with the lowest numbers were used first. */
    assert_true(hk_owner_rests(end - 1));
    live_and_end(THREADS);
    assert_int_equal(resting(), 0);
    assert_int_equal(hk_owner_end(), end);
    hk_pool_purge();
    assert_int_equal(resting(), THREADS);
    unit_heap_holds(0);
}

static unsigned count_holding(void)
{
    unsigned caches = 0;
    for (uint32_t id = HK_FIRST_OWNER; id < hk_owner_end(); id++)
        caches += hk_tcache_by_id(id)->alive;
    return caches;
}

enum { BLOCKS = 20 };

struct visit {
    struct hk_tcache *cache;
    void *blocks[BLOCKS];
    size_t size;
    uint64_t missed; /* misses of this thread */
    bool leaves;     /* the thread does not free its blocks */
};

static void *pay_visit(void *given)
{
    struct visit *visit = given;
    uint64_t before = hk_tcaches_counted(HK_THREAD_misses);
    for (unsigned i = 0; i < BLOCKS; i++)
        visit->blocks[i] = hak_malloc(visit->size);
    visit->cache = hk_tcache_self();
    visit->missed = hk_tcaches_counted(HK_THREAD_misses) - before;
    for (unsigned i = 0; i < BLOCKS && !visit->leaves; i++)
        hak_free(visit->blocks[i]);
    return NULL;
}

static struct visit visit_of(size_t size, bool leaves)
{
    pthread_t thread;
    struct visit visit = {.size = size, .leaves = leaves};
    assert_int_equal(pthread_create(&thread, NULL, pay_visit, &visit), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return visit;
}

/* The next thread gets the blocks of the thread before it, without a miss. */
UNIT_TEST(parked)
{
    unit_start();
    struct visit first = visit_of(112, false), second = visit_of(112, false);
    assert_ptr_equal(first.cache, second.cache);
    assert_true(first.missed > 0);
    assert_int_equal(second.missed, 0);
    assert_int_equal(hk_slab_at((uintptr_t)second.blocks[0])->d.start, hk_slab_at((uintptr_t)first.blocks[0])->d.start);
    assert_int_equal(hk_tcaches_alive(), 1);
    static struct hk_heap_stats heap_stats;
    hk_heap_stats_take(&heap_stats);
    assert_int_equal(heap_stats.threads, 1);
    unit_heap_holds(0);
    hk_tcaches_end_parked(true);
    assert_int_equal(count_holding(), 1);
    unit_heap_holds(0);
}

/* A parked cache ends if no thread took it between two epochs. One that threads take again and again stays. */
UNIT_TEST(parked_until_unused)
{
    unit_start();
    unit_keep_what_threads_leave();
    for (uint64_t epoch = 1; epoch < 5; epoch++) {
        (void)visit_of(112, false);
        hk_pool_epoch(epoch);
        hk_tcaches_end_parked(false);
        assert_int_equal(count_holding(), 2);
    }
    live_and_leave(3);
    hk_pool_epoch(5);
    hk_tcaches_end_parked(false);
    assert_int_equal(count_holding(), 4);
    (void)visit_of(112, false); /* takes the newest of the three */
    hk_pool_epoch(6);
    hk_tcaches_end_parked(false);
    assert_int_equal(count_holding(), 2);
    hk_pool_epoch(7);
    hk_tcaches_end_parked(false);
    assert_int_equal(count_holding(), 1);
    unit_heap_holds(0);
}

UNIT_TEST(parked_few)
{
    unit_start();
    unit_keep_what_threads_leave();
    live_and_leave(HK_POOL_PARKED + 4);
    assert_int_equal(count_holding(), 1 + HK_POOL_PARKED);
    hak_malloc_trim(0);
    assert_int_equal(count_holding(), 1);
    unit_heap_holds(0);
}

enum { MANY = 40 };

struct left {
    size_t size;
    void *blocks[MANY];
};

static void *use_many_slabs(void *given)
{
    struct left *left = given;
    for (unsigned i = 0; i < MANY; i++)
        left->blocks[i] = hak_malloc(left->size);
    return NULL;
}

static unsigned holding_after_many_slabs(size_t size)
{
    pthread_t thread;
    struct left left = {.size = size};
    assert_int_equal(pthread_create(&thread, NULL, use_many_slabs, &left), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    unsigned holding = count_holding();
    for (unsigned i = 0; i < MANY; i++)
        hak_free(left.blocks[i]);
    hk_tcaches_end_parked(true);
    return holding;
}

/* A cache with much memory in slabs of small blocks is not parked. One with many medium slabs is if other threads can take them over. No cache is parked
 * if nothing may stay idle. */
UNIT_TEST(not_parked)
{
    unit_start();
    unit_keep_what_threads_leave();
    assert_int_equal(holding_after_many_slabs(600 * HK_KIB), 1);
    hk_slab_lists_shared = true;
    assert_int_equal(holding_after_many_slabs(30 * HK_KIB), 1);
    assert_int_equal(holding_after_many_slabs(600 * HK_KIB), 2);
    SET_KNOB(purge_delay, 0);
    (void)visit_of(112, false);
    assert_int_equal(count_holding(), 1);
    unit_heap_holds(0);
}

enum { FOREIGN = 7 };

/* Keeps the blocks in a bin, although they lie in slabs of another owner, because the thread allocates blocks of this class too. */
static void *free_foreign(void *given)
{
    void **foreign = given;
    void *volatile own = hak_malloc(128 * HK_KIB);
    hak_free(own);
    for (unsigned i = 0; i < FOREIGN; i++)
        hak_free(foreign[i]);
    return given;
}

/* A parked cache keeps no block in its bins if these have many bytes, also if they are blocks of other owners' slabs. */
UNIT_TEST(parked_without_many_bytes)
{
    pthread_t thread;
    void *foreign[FOREIGN];
    unit_start();
    unit_keep_what_threads_leave();
    for (unsigned i = 0; i < FOREIGN; i++)
        assert_non_null(foreign[i] = hak_malloc(128 * HK_KIB));
    assert_int_equal(pthread_create(&thread, NULL, free_foreign, foreign), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(count_holding(), 2);
    assert_int_equal(hk_tcache_self()->owner.slabs, 7);
    unit_heap_holds(0);
}

/* Frees of blocks of a parked cache wait in its inboxes, as if its thread slept. The next thread, or the end of the cache, collects them. */
UNIT_TEST(parked_collects)
{
    unit_start();
    unit_keep_what_threads_leave();
    struct visit first = visit_of(112, true);
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(first.blocks[i]);
    hk_outbox_send_all(&hk_tcache_self()->outbox);
    unit_heap_holds(0);
    struct visit second = visit_of(112, true);
    assert_ptr_equal(second.cache, first.cache);
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(second.blocks[i]);
    hk_outbox_send_all(&hk_tcache_self()->outbox);
    hk_tcaches_end_parked(true);
    assert_int_equal(count_holding(), 1);
    unit_heap_holds(0);
}

/* An epoch purges the caches that already waited at the previous epoch. A second call for the same epoch has no effect. */
UNIT_TEST(passes)
{
    unit_start();
    unit_keep_what_threads_leave();
    live_and_end(THREADS);
    hk_pool_epoch(1);
    hk_pool_epoch(1);
    assert_int_equal(resting(), 0);
    live_and_end(THREADS / 4);
    hk_pool_epoch(2);
    assert_int_equal(resting(), THREADS - THREADS / 4);
    hk_pool_epoch(3);
    assert_int_equal(resting(), THREADS);
}

enum { FEW = 4, PAUSE_MS = 20 };
static pthread_t purger;
static atomic_bool purge_began, purge_may_end;

/* Keeps the purge of the thread `purger` from its end, until the main thread has begun its own purge, or is about to. */
static bool hold_purge(enum fake_call call, uint64_t ordinal)
{
    (void)ordinal;
    if (call == FAKE_PURGE && pthread_equal(pthread_self(), purger)) {
        atomic_store(&purge_began, true);
        while (!atomic_load(&purge_may_end))
            sched_yield();
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000}, NULL);
    }
    return false;
}

static void *purge_by_epochs(void *unused)
{
    hk_pool_epoch(1);
    purger = pthread_self();
    hk_pool_epoch(2);
    return unused;
}

/* A purge of all caches waits for an epoch's purge in another thread, which does not purge the caches of threads that have ended meanwhile. */
UNIT_TEST(purges_behind_an_epoch)
{
    pthread_t thread;
    unit_start();
    unit_keep_what_threads_leave();
    live_and_end(FEW);
    fake_os_refuse(hold_purge);
    assert_int_equal(pthread_create(&thread, NULL, purge_by_epochs, NULL), 0);
    while (!atomic_load(&purge_began))
        sched_yield();
    live_and_end(FEW);
    atomic_store(&purge_may_end, true);
    assert_true(hk_pool_purge() > 0);
    pthread_join(thread, NULL);
    assert_int_equal(resting(), 2 * FEW);
}

UNIT_TEST(counts_stay)
{
    hk_options.count = HK_COUNT_ON;
    unit_start();
    unit_keep_what_threads_leave();
    live_and_end(THREADS);
    static struct hk_heap_stats before, after;
    uint64_t missed = hk_tcaches_counted(HK_THREAD_misses), overflows = hk_tcaches_counted(HK_THREAD_overflows);
    hk_heap_stats_take(&before);
    assert_true(hk_pool_purge() > 0);
    hk_heap_stats_take(&after);
    assert_memory_equal(&after.classes[CLASS_OF_112], &before.classes[CLASS_OF_112], sizeof before.classes[0]);
    assert_int_equal(hk_tcaches_served(CLASS_OF_112), THREADS * EACH);
    assert_int_equal(after.mallocs, before.mallocs);
    assert_memory_equal(after.counts, before.counts, sizeof before.counts);
    assert_int_equal(hk_tcaches_counted(HK_THREAD_misses), missed);
    assert_int_equal(hk_tcaches_counted(HK_THREAD_overflows), overflows);
    live_and_end(THREADS);
    assert_int_equal(hk_tcaches_served(CLASS_OF_112), 2 * THREADS * EACH);
}

UNIT_TEST(refused)
{
    hk_options.count = HK_COUNT_ON;
    unit_start();
    unit_keep_what_threads_leave();
    live_and_end(THREADS);
    fake_os_refuse(fake_refuse_purge);
    assert_int_equal(hk_pool_purge(), 0);
    assert_int_equal(resting(), 0);
    assert_int_equal(hk_tcaches_served(CLASS_OF_112), THREADS * EACH);
    fake_os_refuse(NULL);
    live_and_end(THREADS);
    assert_true(hk_pool_purge() > 0);
    assert_int_equal(resting(), THREADS);
}

/* If there are many threads, a new thread has no slabs of its own until it has allocated and freed some blocks. Then it gets its own slabs. */
static void *be_new(void *rounds)
{
    /* One thread after the other gets its cache, because a thread that is preempted meanwhile would count those that come after it. */
    static pthread_mutex_t in_turn = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&in_turn);
    (void)hk_tcache_get();
    pthread_mutex_unlock(&in_turn);
    for (int round = 0; round < (int)(intptr_t)rounds; round++)
        hak_free(hak_malloc(112));
    void *block = hak_malloc(112), *other = hak_malloc(112);
    const struct hk_tcache *cache = hk_tcache_self();
    pthread_barrier_wait(&all_alive);
    uint32_t owner = hk_entry_owner(hk_page_map_lookup((uintptr_t)other));
    void *seen = (void *)(intptr_t)(owner == HK_ABANDONED ? 1 : owner == cache->owner.id ? 2 : 0);
    hak_free(block);
    hak_free(other);
    return seen;
}

UNIT_TEST(commons_for_the_new)
{
    pthread_t thread[THREADS];
    unsigned common = 0, own = 0;
    unit_start();
    unit_keep_what_threads_leave();
    assert_int_equal(pthread_barrier_init(&all_alive, NULL, THREADS), 0);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, be_new, i == THREADS - 1 ? (void *)(intptr_t)2000 : NULL), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *seen;
        assert_int_equal(pthread_join(thread[i], &seen), 0);
        common += seen == (void *)1;
        assert_true(i < THREADS - 1 || seen == (void *)2);
        own += seen == (void *)2;
    }
    assert_int_equal(common + own, THREADS);
    assert_in_range(common, THREADS - 64 - 1, THREADS - 64 + 1);
    unit_heap_holds(0);
}

/* A thread may still have the number of an owner that has ended. The number must lead to an owner whose inboxes are closed. */
UNIT_TEST(stale_number)
{
    unit_start();
    unit_keep_what_threads_leave();
    live_and_end(2);
    uint32_t id = hk_owner_end() - 1;
    hk_pool_purge();
    assert_true(hk_owner_rests(id));
    struct hk_slab slab = {.d = {.class = CLASS_OF_112}};
    assert_false(hk_inbox_push(hk_owner_by_id(id), &slab));
    assert_null(hk_inbox_take(hk_owner_by_id(id), CLASS_OF_112, 1));
    assert_null(hk_inbox_steal(hk_owner_by_id(id), CLASS_OF_112, 1, UINT64_MAX, &(bool){false}));
    assert_false(hk_load(hk_owner_by_id(id)->xopen));
    assert_int_equal(resident_pages(id) == 0 || hk_owner_by_id(id)->id == 0, 1);
}

/* The memory of a cache is not purged while it has a ring of events that can be read. */
UNIT_TEST(rings_stay)
{
    unit_start();
    unit_keep_what_threads_leave();
    hk_options.trace_ring = 8;
    live_and_end(4);
    assert_int_equal(hk_pool_purge(), 0);
    assert_int_equal(resting(), 0);
}

/* If the system refuses memory for an owner, the memory that was obtained so far is kept for the next thread. */
UNIT_TEST(no_number)
{
    unit_start();
    unit_keep_what_threads_leave();
    live_and_end(40); /* The first part of the table has room for fewer than 40 threads. */
    uint32_t end = hk_owner_end();
    size_t mapped = hk_meta_mapped();
    static struct hk_tcache *taken[5000];
    size_t count = 0;
    fake_os_refuse(fake_refuse_map);
    while (count < 5000 && (taken[count] = hk_pool_take()) != NULL)
        count++;
    assert_true(count < 5000);
    assert_true(hk_owner_end() > end);
    mapped = hk_meta_mapped();
    size_t unused = hk_meta_unused();
    for (int i = 0; i < 1000; i++)
        assert_null(hk_pool_take());
    assert_int_equal(hk_meta_mapped(), mapped);
    assert_int_equal(hk_meta_unused(), unused);
    fake_os_refuse(NULL);
    assert_non_null(hk_pool_take());
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pages_go),        cmocka_unit_test(commons_for_the_new),
                                       cmocka_unit_test(taken_again),     cmocka_unit_test(purges_behind_an_epoch),
                                       cmocka_unit_test(passes),          cmocka_unit_test(counts_stay),
                                       cmocka_unit_test(refused),         cmocka_unit_test(stale_number),
                                       cmocka_unit_test(rings_stay),      cmocka_unit_test(no_number),
                                       cmocka_unit_test(parked),          cmocka_unit_test(parked_until_unused),
                                       cmocka_unit_test(parked_few),      cmocka_unit_test(not_parked),
                                       cmocka_unit_test(parked_collects), cmocka_unit_test(parked_without_many_bytes)};
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
