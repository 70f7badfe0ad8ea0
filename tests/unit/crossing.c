/* Tests which blocks of other owners' slabs a thread keeps in its bins. */
#include "unit/unit.h"

#include <pthread.h>

#include "tcache/tcache.h"
#include "hakmem.h"

enum { BATCH = 600, ROUNDS = 40, CROSSES = 16 };

static struct hk_tcache *start(void)
{
    unit_start();
    return hk_tcache_self();
}

static uint64_t sent_by(const struct hk_tcache *cache)
{
    return hk_load(cache->owner.counts.xvalue[HK_THREAD_remote_frees]);
}

static void get_batch(void **blocks, size_t size)
{
    for (int i = 0; i < BATCH; i++)
        assert_non_null(blocks[i] = hak_malloc(size));
}

static void free_batch(void *const *blocks)
{
    for (int i = 0; i < BATCH; i++)
        hak_free(blocks[i]);
}

/* A second thread, which works while the first one waits, and lives until partner_ends(). */
static struct {
    pthread_t thread;
    pthread_barrier_t turn;
    void (*work)(void); /* NULL: the thread ends */
    size_t size;
    void *to[BATCH], *from[BATCH];
} partner;

static void *be_partner(void *unused)
{
    (void)unused;
    for (;;) {
        pthread_barrier_wait(&partner.turn);
        if (partner.work == NULL)
            return NULL;
        partner.work();
        pthread_barrier_wait(&partner.turn);
    }
}

static void partner_begins(size_t size)
{
    partner.size = size;
    pthread_barrier_init(&partner.turn, NULL, 2);
    pthread_create(&partner.thread, NULL, be_partner, NULL);
}

static void let_partner(void (*work)(void))
{
    partner.work = work;
    pthread_barrier_wait(&partner.turn);
    if (work != NULL)
        pthread_barrier_wait(&partner.turn);
}

static void partner_ends(void)
{
    let_partner(NULL);
    pthread_join(partner.thread, NULL);
    hak_malloc_trim(0);
    unit_heap_holds(0);
}

static void partner_frees(void) { free_batch(partner.to); }
static void partner_gets(void) { get_batch(partner.from, partner.size); }

static void partner_answers(void)
{
    partner_frees();
    partner_gets();
}

UNIT_TEST(small_blocks_that_cross_are_kept)
{
    const struct hk_tcache *cache = start();
    bool kept = false;
    partner_begins(64);
    for (int round = 0; round < ROUNDS; round++) {
        get_batch(partner.to, 64);
        let_partner(partner_answers);
        kept |= hk_crossing_keeps(cache, CLASS_OF_64);
        free_batch(partner.from);
    }
    assert_true(kept);
    assert_true(sent_by(cache) < (uint64_t)BATCH * ROUNDS);
    partner_ends();
}

UNIT_TEST(small_blocks_that_go_one_way_are_not)
{
    const struct hk_tcache *cache = start();
    partner_begins(64);
    for (int round = 0; round < ROUNDS; round++) {
        get_batch(partner.to, 64);
        let_partner(partner_frees);
    }
    assert_int_equal(cache->hot.keeps, 0);
    for (int round = 0; round < ROUNDS; round++) {
        let_partner(partner_gets);
        free_batch(partner.from);
    }
    assert_int_equal(cache->hot.keeps, 0);
    hak_malloc_trim(0);
    assert_int_equal(sent_by(cache), BATCH * ROUNDS);
    partner_ends();
}

/* A thread that also allocates the class keeps the blocks, but sends home those that its bin has no room for. */
UNIT_TEST(larger_blocks_are_kept_by_who_allocates_them)
{
    const struct hk_tcache *cache = start();
    partner_begins(1024);
    let_partner(partner_gets);
    free_batch(partner.from);
    hak_malloc_trim(0);
    assert_int_equal(sent_by(cache), BATCH);
    hak_free(hak_malloc(1024));
    assert_true(hk_crossing_keeps(cache, CLASS_OF_1024));
    size_t own = hk_bin_items(&cache->hot.bins[CLASS_OF_1024]);
    let_partner(partner_gets);
    hak_free(partner.from[0]);
    assert_int_equal(hk_bin_items(&cache->hot.bins[CLASS_OF_1024]), own + 1);
    for (int i = 1; i < BATCH; i++)
        hak_free(partner.from[i]);
    partner_ends();
}

static void miss(struct hk_tcache *cache, unsigned sent, size_t returned)
{
    for (unsigned i = 0; i < sent; i++)
        hk_crossing_sent(cache, CLASS_OF_64);
    if (returned > 0)
        hk_crossing_returned(cache, CLASS_OF_64, returned);
    hk_crossing_missed(cache, CLASS_OF_64);
}

UNIT_TEST(misses_decide)
{
    struct hk_tcache *cache = start();
    for (int i = 0; i < 1000; i++)
        miss(cache, 1, 0);
    assert_false(hk_crossing_keeps(cache, CLASS_OF_64));
    hk_crossing_forget(cache);
    for (int i = 0; i < 1000; i++)
        miss(cache, 0, 64);
    assert_false(hk_crossing_keeps(cache, CLASS_OF_64));
    hk_crossing_forget(cache);
    miss(cache, CROSSES, CROSSES * 64); /* later misses of the batch cross, too */
    for (int i = 1; i < CROSSES; i++) {
        assert_false(hk_crossing_keeps(cache, CLASS_OF_64));
        miss(cache, 0, 0);
    }
    assert_true(hk_crossing_keeps(cache, CLASS_OF_64));
    for (int i = 0; i < CROSSES; i++) {
        assert_true(hk_crossing_keeps(cache, CLASS_OF_64));
        miss(cache, 0, 0);
    }
    assert_false(hk_crossing_keeps(cache, CLASS_OF_64));
}

UNIT_TEST(a_full_bin_ends_it)
{
    struct hk_tcache *cache = start();
    miss(cache, CROSSES, CROSSES * 64);
    for (int i = 1; i < CROSSES; i++)
        miss(cache, 0, 0);
    assert_true(hk_crossing_keeps(cache, CLASS_OF_64));
    hk_crossing_overflowed(cache, CLASS_OF_64);
    assert_false(hk_crossing_keeps(cache, CLASS_OF_64));
    hk_crossing_missed(cache, CLASS_OF_1024);
    hk_crossing_overflowed(cache, CLASS_OF_1024);
    assert_true(hk_crossing_keeps(cache, CLASS_OF_1024));
}

/* The hit path of free checks no marks. */
UNIT_TEST(medium_blocks_are_never_kept_by_a_hit)
{
    struct hk_tcache *cache = start();
    unsigned class = hk_class_of(100000);
    assert_false(hk_crossing_keeps(cache, class));
    void *block = hak_malloc(100000);
    assert_true(hk_crossing_keeps(cache, class));
    assert_int_equal(cache->hot.keeps >> class, 0);
    hak_free(block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_blocks_that_cross_are_kept),
        cmocka_unit_test(small_blocks_that_go_one_way_are_not),
        cmocka_unit_test(larger_blocks_are_kept_by_who_allocates_them),
        cmocka_unit_test(misses_decide),
        cmocka_unit_test(a_full_bin_ends_it),
        cmocka_unit_test(medium_blocks_are_never_kept_by_a_hit),
    };
    return cmocka_run_group_tests_name("crossing", tests, NULL, NULL);
}
