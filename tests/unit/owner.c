/* Tests the numbers of owners, and their inboxes. Many threads push slabs, the owner takes them, and another thread may steal them. An inbox can
 * be closed and opened. */
#include "unit/unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "slab/owner.h"
#include "span/meta.h"

enum { CLASS = CLASS_OF_96, STRANGERS = 3, SLABS = 2000, AT_ENDS = 100000 };

static struct hk_owner owner;

/* These slabs have only a class because the code of inboxes reads nothing else. */
static struct hk_slab many_slabs[STRANGERS * SLABS], few_slabs[8];

static struct hk_slab *slab_of(struct hk_slab *slabs, size_t i)
{
    slabs[i].d.class = CLASS;
    return &slabs[i];
}

static void start(void)
{
    unit_start();
    assert_true(hk_owner_register(&owner));
    hk_owner_open(&owner);
}

static size_t length(const struct hk_slab *chain)
{
    size_t count = 0;
    for (; chain != NULL; chain = hk_inbox_next(chain))
        count++;
    return count;
}

UNIT_TEST(numbers)
{
    start();
    static struct hk_owner more[100];
    uint32_t end = hk_owner_end();
    assert_int_equal(owner.id, end - 1);
    for (uint32_t i = 0; i < 100; i++) {
        assert_true(hk_owner_register(&more[i]));
        assert_int_equal(more[i].id, end + i);
        assert_ptr_equal(hk_owner_by_id(end + i), &more[i]);
    }
    assert_int_equal(hk_owner_end(), end + 100);
}

UNIT_TEST(no_more_numbers)
{
    static struct hk_owner many[4096];
    start();
    fake_os_refuse(fake_refuse_map);
    while (hk_meta_alloc(64) != NULL)
        continue;
    size_t got = 0;
    while (got < 4096 && hk_owner_register(&many[got]))
        got++;
    assert_in_range(got, 1, 4095);
    uint32_t end = hk_owner_end();
    assert_false(hk_owner_register(&many[got]));
    assert_int_equal(hk_owner_end(), end);
    fake_os_refuse(NULL);
    assert_true(hk_owner_register(&many[got]));
}

static bool push(size_t i) { return hk_inbox_push(&owner, slab_of(few_slabs, i)); }

/* The newest slabs are taken first, and at most as many as requested. The other slabs stay for the next call. */
UNIT_TEST(push_and_take)
{
    start();
    assert_null(hk_inbox_take(&owner, CLASS, 10));
    for (size_t i = 1; i <= 5; i++)
        assert_true(push(i));
    assert_int_equal(hk_load(hk_queued_slabs[CLASS]), 5);
    assert_null(hk_inbox_take(&owner, CLASS + 1, 10));
    struct hk_slab *two = hk_inbox_take(&owner, CLASS, 2);
    assert_ptr_equal(two, &few_slabs[5]);
    assert_ptr_equal(hk_inbox_next(two), &few_slabs[4]);
    assert_int_equal(length(two), 2);
    assert_true(push(6));
    /* The backlog is taken before newer slabs. */
    struct hk_slab *rest = hk_inbox_take(&owner, CLASS, 10);
    assert_ptr_equal(rest, &few_slabs[3]);
    assert_int_equal(length(rest), 3);
    assert_ptr_equal(hk_inbox_take(&owner, CLASS, 10), &few_slabs[6]);
    assert_null(hk_inbox_take(&owner, CLASS, 10));
    assert_int_equal(hk_load(owner.xpending), 0);
    assert_int_equal(hk_load(hk_queued_slabs[CLASS]), 0);
}

/* A walk takes each slab once and pushes it again. The walk must end even if other threads push during the walk. */
UNIT_TEST(one_after_the_other)
{
    bool last = false;
    size_t looked_at = 0;
    start();
    assert_null(hk_inbox_steal(&owner, CLASS, 1, UINT64_MAX, &last));
    for (size_t i = 1; i <= 5; i++)
        assert_true(push(i));
    for (; !last; looked_at++) {
        struct hk_slab *slab = hk_inbox_steal(&owner, CLASS, 1, UINT64_MAX, &last);
        assert_non_null(slab);
        assert_true(hk_inbox_push(&owner, slab));
        if (looked_at == 2)
            assert_true(push(6));
    }
    assert_int_equal(looked_at, 5);
    assert_int_equal(length(hk_inbox_take(&owner, CLASS, 10)), 6);
    assert_true(push(1));
    assert_true(hk_try_lock(&owner.drain_lock));
    /* While the drain lock is held, the call returns NULL. */
    assert_null(hk_inbox_steal(&owner, CLASS, 1, UINT64_MAX, &last));
    hk_unlock(&owner.drain_lock);
}

UNIT_TEST(close_and_open)
{
    start();
    assert_true(push(1));
    hk_inboxes_close(&owner);
    assert_ptr_equal(hk_inbox_take(&owner, CLASS, 5), &few_slabs[1]);
    assert_false(push(2));
    hk_inboxes_close(&owner);
    assert_null(hk_inbox_take(&owner, CLASS, 5));
    hk_owner_open(&owner);
    assert_true(push(2));
    assert_ptr_equal(hk_inbox_take(&owner, CLASS, 1), &few_slabs[2]);
}

/* A fork child discards the contents of all inboxes. Only the inboxes of its own thread are open. */
UNIT_TEST(restart)
{
    static struct hk_owner other;
    start();
    assert_true(hk_owner_register(&other));
    hk_owner_open(&other);
    for (size_t i = 1; i <= 3; i++)
        assert_true(push(i));
    assert_true(hk_inbox_push(&other, slab_of(few_slabs, 4)));
    assert_non_null(hk_inbox_take(&owner, CLASS, 1)); /* Two slabs stay in the backlog. */
    hk_owners_fork_child(&owner);
    assert_true(hk_load(owner.xopen) && !hk_load(other.xopen)); /* no thread may take slabs over from `other` */
    assert_null(hk_inbox_take(&owner, CLASS, 10));
    assert_null(hk_inbox_take(&other, CLASS, 10));
    assert_int_equal(hk_load(hk_queued_slabs[CLASS]), 0);
    assert_true(push(1));
    assert_false(hk_inbox_push(&other, slab_of(few_slabs, 2)));
    assert_int_equal(length(hk_inbox_take(&owner, CLASS, 10)), 1);
}

static _Atomic size_t strangers_done;
static _Atomic size_t refused_at_the_end;

static void *push_many(void *first)
{
    for (size_t i = 0; i < SLABS; i++)
        if (!hk_inbox_push(&owner, slab_of(many_slabs, (uintptr_t)first + i)))
            atomic_fetch_add(&refused_at_the_end, 1);
    atomic_fetch_add(&strangers_done, 1);
    return NULL;
}

static size_t note_chain(const struct hk_slab *chain, const struct hk_slab *slabs, unsigned char *seen)
{
    size_t count = 0;
    for (; chain != NULL; chain = hk_inbox_next(chain), count++)
        seen[chain - slabs]++;
    return count;
}

/* Threads push slabs while the owner takes a few slabs at a time and then closes its inbox. Every slab must arrive exactly once or be refused. */
UNIT_TEST(many_strangers)
{
    static unsigned char seen[STRANGERS * SLABS];
    pthread_t threads[STRANGERS];
    size_t got = 0;
    start();
    for (uintptr_t i = 0; i < STRANGERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, push_many, (void *)(i * SLABS)), 0);
    while (got < SLABS && atomic_load(&strangers_done) < STRANGERS)
        got += note_chain(hk_inbox_take(&owner, CLASS, 3), many_slabs, seen);
    hk_inboxes_close(&owner);
    for (int i = 0; i < STRANGERS; i++)
        pthread_join(threads[i], NULL);
    got += note_chain(owner.backlog[CLASS], many_slabs, seen);
    assert_int_equal(got + atomic_load(&refused_at_the_end), STRANGERS * SLABS);
    for (size_t i = 0; i < STRANGERS * SLABS; i++)
        assert_true(seen[i] <= 1);
}

/* Another thread may steal if the owner has not read the clock since the given time, and if the owner is not using its inboxes. */
UNIT_TEST(steal)
{
    bool last;
    start();
    hk_store(owner.xawake, 100);
    assert_null(hk_inbox_steal(&owner, CLASS, 10, 100, &last));
    for (size_t i = 1; i <= 3; i++)
        assert_true(push(i));
    assert_null(hk_inbox_steal(&owner, CLASS, 10, 99, &last));
    assert_null(hk_inbox_steal(&owner, CLASS + 1, 10, 100, &last));
    assert_true(hk_try_lock(&owner.drain_lock));
    assert_null(hk_inbox_steal(&owner, CLASS, 10, 100, &last));
    hk_unlock(&owner.drain_lock);
    struct hk_slab *two = hk_inbox_steal(&owner, CLASS, 2, 100, &last);
    assert_ptr_equal(two, &few_slabs[3]);
    assert_int_equal(length(two), 2);
    assert_int_equal(length(hk_inbox_take(&owner, CLASS, 10)), 1);
    assert_null(hk_inbox_steal(&owner, CLASS, 10, 100, &last));
}

static _Atomic bool over;
static _Atomic size_t stolen;

static void *steal_until_over(void *unused)
{
    bool last;
    while (!atomic_load(&over))
        atomic_fetch_add(&stolen, length(hk_inbox_steal(&owner, CLASS, 1, UINT64_MAX, &last)));
    return unused;
}

/* One thread closes and opens its inboxes repeatedly while another steals. Closed inboxes stay closed. No slab is lost or seen twice. */
UNIT_TEST(a_thief_at_the_end)
{
    pthread_t thief;
    size_t taken = 0;
    start();
    assert_int_equal(pthread_create(&thief, NULL, steal_until_over, NULL), 0);
    for (size_t i = 0; i < AT_ENDS; i += 2) {
        assert_true(hk_inbox_push(&owner, slab_of(many_slabs, i % SLABS)));
        assert_true(hk_inbox_push(&owner, slab_of(many_slabs, i % SLABS + 1)));
        hk_inboxes_close(&owner);
        assert_false(push(1));
        while (hk_load(owner.xpending) != 0)
            taken += length(hk_inbox_take(&owner, CLASS, 1));
        hk_lock(&owner.drain_lock);
        assert_null(owner.backlog[CLASS]);
        hk_unlock(&owner.drain_lock);
        hk_owner_open(&owner);
    }
    atomic_store(&over, true);
    pthread_join(thief, NULL);
    assert_int_equal(taken + atomic_load(&stolen), AT_ENDS);
}

/* The first owners have static flags. Each owner beyond them must have flags of its own too. */
UNIT_TEST(thousands)
{
    enum { COUNT = 8192 + 200 };
    start();
    while (hk_owner_end() < COUNT)
        assert_true(hk_owner_register(&owner));
    assert_ptr_equal(hk_owner_by_id(COUNT - 1), &owner);
    hk_owners_rest(COUNT - 1 - (COUNT - 1) % 64, (uint64_t)1 << (COUNT - 1) % 64);
    assert_true(hk_owner_rests(COUNT - 1));
    assert_false(hk_owner_rests(COUNT - 2));
    assert_false(hk_owner_rests((COUNT - 1) % 8192));
    hk_owners_wake(COUNT - 1 - (COUNT - 1) % 64, (uint64_t)1 << (COUNT - 1) % 64);
    assert_false(hk_owner_rests(COUNT - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),
        cmocka_unit_test(no_more_numbers),
        cmocka_unit_test(thousands),
        cmocka_unit_test(push_and_take),
        cmocka_unit_test(one_after_the_other),
        cmocka_unit_test(close_and_open),
        cmocka_unit_test(restart),
        cmocka_unit_test(many_strangers),
        cmocka_unit_test(steal),
        cmocka_unit_test(a_thief_at_the_end),
    };
    return cmocka_run_group_tests_name("owner", tests, NULL, NULL);
}
