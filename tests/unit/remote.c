/* Tests that a block that another thread frees is collected exactly once by its owner. The slab must not be released while a thread is about to
 * use it. */
#include "unit/unit.h"

#include <pthread.h>

#include "slab/owner.h"
#include "slab/remote.h"

enum { CLASS = CLASS_OF_64, LARGE_CLASS = CLASS_OF_65536, OWNER = 5, BLOCKS = 1024, FREERS = 3 };

static struct hk_slab *slab;
static void *blocks[BLOCKS];

static void start(unsigned class, unsigned taken)
{
    unit_start();
    slab = unit_slab(class, OWNER);
    assert_non_null(slab);
    hk_slab_alloc(slab, blocks + taken, taken);
}

static bool is_whole(const struct hk_slab *it, unsigned free)
{
    unsigned set = 0;
    for (unsigned word = 0; word < it->words; word++)
        set += (unsigned)__builtin_popcountll(it->freebits[word]);
    return set == free && it->free == free;
}

/* The remote bits of a small slab lie in cache lines of their own, so a thread that frees does not touch the holder's lines. */
UNIT_TEST(where_they_lie)
{
    start(CLASS, 0);
    assert_int_equal((uintptr_t)slab->xremote % HK_CACHE_LINE, 0);
    assert_true((uintptr_t)slab->xremote >= (uintptr_t)(slab->freebits + slab->words));
    struct hk_slab *large = unit_slab(LARGE_CLASS, OWNER);
    assert_ptr_equal(large->xremote, large->xown_remote);
    assert_int_not_equal((uintptr_t)large->xremote / HK_CACHE_LINE, (uintptr_t)large->freebits / HK_CACHE_LINE);
    assert_int_not_equal((uintptr_t)large->xremote / HK_CACHE_LINE, (uintptr_t)&large->d.start / HK_CACHE_LINE);
}

/* The first thread that counts its blocks must queue the slab. The slab counts as free only when all counted blocks have been collected. */
UNIT_TEST(mark_count_collect)
{
    start(CLASS, 100);
    hk_remote_mark(slab, 0, 0xff);
    assert_true(hk_remote_count(slab, 8));
    hk_remote_mark(slab, 1, 1);
    assert_false(hk_remote_count(slab, 1));
    assert_int_equal(hk_remote_blocks(slab), 9);
    assert_int_equal(hk_remote_collect(slab), 9);
    assert_true(is_whole(slab, BLOCKS - 100 + 9));
    assert_int_equal(slab->first_word, 0);
    assert_int_equal(hk_remote_blocks(slab), 0);
    assert_int_equal(hk_load(slab->xstate), 0);
    hk_remote_mark(slab, 1, 2);
    assert_true(hk_remote_count(slab, 1));
}

/* Blocks that are collected before they are counted keep the slab from being released. */
UNIT_TEST(counted_late)
{
    start(CLASS, 2);
    hk_remote_mark(slab, 0, 1);
    assert_true(hk_remote_count(slab, 1));
    hk_remote_mark(slab, 0, 2);
    assert_int_equal(hk_remote_collect(slab), 2);
    assert_int_equal(slab->free, BLOCKS);
    assert_int_equal(hk_remote_blocks(slab), -1);
    assert_false(hk_slab_all_free(slab));
    assert_true(hk_remote_count(slab, 1));
    assert_false(hk_slab_all_free(slab)); /* The slab is in use because a thread is about to queue it. */
    assert_int_equal(hk_remote_collect(slab), 0);
    assert_true(hk_slab_all_free(slab));
}

UNIT_TEST(claim_and_put_back)
{
    uint64_t bits[HK_SLAB_MOST_WORDS] = {0};
    start(CLASS, 100);
    hk_remote_mark(slab, 0, 6);
    assert_true(hk_remote_count(slab, 2));
    assert_int_equal(hk_remote_claim(slab, bits), 2);
    assert_int_equal(bits[0], 6);
    hk_remote_mark(slab, 1, 1);
    /* The call returns false because the slab is still queued by the claim. */
    assert_false(hk_remote_count(slab, 1));
    assert_int_equal(hk_remote_let_go(slab, bits), 1);
    assert_int_equal(bits[1], 1);
    assert_int_equal(hk_load(slab->xstate), 0);
    bits[1] = 0;
    assert_true(hk_remote_put_back(slab, bits));
    assert_int_equal(hk_remote_collect(slab), 2);
    assert_true(is_whole(slab, BLOCKS - 100 + 2));
}

static void mark_twice(void *unused)
{
    (void)unused;
    hk_remote_mark(slab, 0, 4);
    hk_remote_mark(slab, 0, 4);
}

static void collect_what_is_free(void *unused)
{
    (void)unused;
    hk_remote_mark(slab, 3, 4); /* The marked block was never allocated. */
    hk_remote_count(slab, 1);
    hk_remote_collect(slab);
}

UNIT_TEST(freed_twice)
{
    start(CLASS, 100);
    unit_dies(mark_twice, NULL, "free(), found later: block already free: address 0x");
    unit_dies(collect_what_is_free, NULL, "free(), found later: block already free: address 0x");
}

static void claim_twice(void *unused)
{
    uint64_t bits[HK_SLAB_MOST_WORDS] = {0};
    (void)unused;
    hk_remote_mark(slab, 0, 4);
    hk_remote_count(slab, 1);
    hk_remote_claim(slab, bits);
    hk_remote_mark(slab, 0, 4); /* The block is freed again while its pages are purged. */
    hk_remote_let_go(slab, bits);
}

UNIT_TEST(freed_while_claimed)
{
    start(CLASS, 100);
    unit_dies(claim_twice, NULL, "free(), found later: block already free: address 0x");
}

/* A fork child derives its state from the remote bits, not from the counts and queues, because a thread may have been changing these. */
UNIT_TEST(after_a_fork)
{
    start(CLASS, 100);
    assert_false(hk_remote_restart(slab));
    hk_remote_mark(slab, 0, 3);
    assert_true(hk_remote_restart(slab));
    assert_int_equal(hk_remote_blocks(slab), 2);
    assert_int_equal(hk_remote_collect(slab), 2);
    hk_remote_mark(slab, 0, 4);
    hk_remote_count(slab, 1);
    assert_true(hk_remote_merge(slab));
    hk_slab_recount(slab);
    assert_true(is_whole(slab, BLOCKS - 100 + 3));
    assert_int_equal(hk_load(slab->xstate), 0);
    assert_false(hk_remote_merge(slab));
}

UNIT_TEST(what_went_to_the_system)
{
    start(CLASS, 100);
    hk_remote_mark(slab, 0, 3);
    hk_remote_count(slab, 2);
    hk_remote_note_clean(slab, 4096);
    hk_remote_note_clean(slab, 8192);
    assert_int_equal(hk_remote_clean(), 8192);
    hk_remote_collect(slab);
    assert_int_equal(hk_remote_clean(), 0);
}

/* Threads free different blocks while the holder collects them. Each block must be collected exactly once. */
static _Atomic int queued; /* The thread that must queue the slab sets this. The holder clears it. */
static _Atomic int freers_done;

static void *free_every_third(void *first)
{
    for (size_t i = (uintptr_t)first; i < BLOCKS; i += FREERS) {
        hk_remote_mark(slab, (unsigned)i / 64, (uint64_t)1 << i % 64);
        if (hk_remote_count(slab, 1))
            atomic_fetch_add(&queued, 1);
    }
    atomic_fetch_add(&freers_done, 1);
    return NULL;
}

UNIT_TEST(many_freers)
{
    for (int round = 0; round < 20; round++) {
        pthread_t threads[FREERS];
        unsigned got = 0;
        start(CLASS, BLOCKS);
        atomic_store(&freers_done, 0);
        for (uintptr_t i = 0; i < FREERS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, free_every_third, (void *)i), 0);
        while (got < BLOCKS || atomic_load(&freers_done) < FREERS) {
            int before = atomic_load(&queued);
            assert_in_range(before, 0, 1);
            if (before == 0)
                continue;
            atomic_store(&queued, 0);
            got += hk_remote_collect(slab);
        }
        for (int i = 0; i < FREERS; i++)
            pthread_join(threads[i], NULL);
        if (atomic_exchange(&queued, 0) == 1)
            got += hk_remote_collect(slab);
        assert_int_equal(got, BLOCKS);
        assert_true(hk_slab_all_free(slab));
        hk_slab_release(slab);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_they_lie), cmocka_unit_test(mark_count_collect),
        cmocka_unit_test(counted_late),   cmocka_unit_test(claim_and_put_back),
        cmocka_unit_test(freed_twice),    cmocka_unit_test(freed_while_claimed),
        cmocka_unit_test(after_a_fork),   cmocka_unit_test(what_went_to_the_system),
        cmocka_unit_test(many_freers),
    };
    return cmocka_run_group_tests_name("remote", tests, NULL, NULL);
}
