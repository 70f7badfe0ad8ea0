/* Owner: numbers, parcels, and the inbox: posted by many, taken by one or stolen, closed and opened. */
#include "unit/unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "slab/owner.h"
#include "span/meta.h"

enum { CLASS = CLASS_OF_96, STRANGERS = 3, PARCELS = 2000, AT_ENDS = 300000 };

static struct hk_owner owner;

static struct hk_parcel *parcel_with(uintptr_t mark)
{
    struct hk_parcel *parcel = hk_parcel_new();
    assert_non_null(parcel);
    parcel->class = CLASS;
    parcel->count = 1;
    parcel->blocks[0] = (void *)mark;
    return parcel;
}

static void start(void)
{
    unit_start();
    assert_true(hk_owner_register(&owner));
    hk_owner_open(&owner);
}

static size_t drop_chain(struct hk_parcel *chain)
{
    size_t count = 0;
    for (struct hk_parcel *next; chain != NULL; chain = next, count++) {
        next = chain->next;
        hk_parcel_drop(chain);
    }
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

UNIT_TEST(parcels)
{
    start();
    size_t before = hk_parcels_bytes();
    struct hk_parcel *first = parcel_with(1);
    first->count = 9;
    hk_parcel_drop(first);
    struct hk_parcel *again = hk_parcel_new();
    assert_ptr_equal(again, first);
    assert_int_equal(again->count, 0);
    assert_int_equal(hk_parcels_bytes(), before + sizeof *first);
}

/* The newest first, at most as many as wanted; what is not taken stays for the next time. */
UNIT_TEST(post_and_take)
{
    start();
    assert_null(hk_inbox_take(&owner, CLASS, 10));
    for (uintptr_t i = 1; i <= 5; i++)
        assert_true(hk_inbox_post(&owner, parcel_with(i)));
    assert_null(hk_inbox_take(&owner, CLASS + 1, 10));
    struct hk_parcel *two = hk_inbox_take(&owner, CLASS, 2);
    assert_int_equal(two->blocks[0], 5);
    assert_int_equal(two->next->blocks[0], 4);
    assert_null(two->next->next);
    assert_true(hk_inbox_post(&owner, parcel_with(6)));
    /* The backlog goes first, then what has come since. */
    struct hk_parcel *rest = hk_inbox_take(&owner, CLASS, 10);
    assert_int_equal(rest->blocks[0], 3);
    assert_int_equal(drop_chain(rest), 3);
    struct hk_parcel *late = hk_inbox_take(&owner, CLASS, 10);
    assert_int_equal(late->blocks[0], 6);
    assert_int_equal(drop_chain(late), 1);
    assert_null(hk_inbox_take(&owner, CLASS, 10));
    assert_int_equal(hk_load(owner.xpending), 0);
    drop_chain(two);
}

UNIT_TEST(close_and_open)
{
    start();
    struct hk_parcel *last = parcel_with(1), *refused = parcel_with(2);
    assert_true(hk_inbox_post(&owner, last));
    hk_inboxes_close(&owner);
    assert_ptr_equal(hk_inbox_take(&owner, CLASS, 5), last);
    assert_false(hk_inbox_post(&owner, refused));
    assert_int_equal(refused->blocks[0], 2);
    hk_inboxes_close(&owner);
    assert_null(hk_inbox_take(&owner, CLASS, 5));
    hk_inbox_open(&owner, CLASS);
    assert_true(hk_inbox_post(&owner, refused));
    assert_ptr_equal(hk_inbox_take(&owner, CLASS, 1), refused);
}

static _Atomic size_t strangers_done;
static _Atomic size_t refused_at_the_end;

static void *post_many(void *first)
{
    for (uintptr_t i = 0; i < PARCELS; i++) {
        struct hk_parcel *parcel = parcel_with((uintptr_t)first + i);
        if (!hk_inbox_post(&owner, parcel)) {
            hk_parcel_drop(parcel);
            atomic_fetch_add(&refused_at_the_end, 1);
        }
    }
    atomic_fetch_add(&strangers_done, 1);
    return NULL;
}

static size_t note_chain(struct hk_parcel *chain, unsigned char *seen)
{
    for (struct hk_parcel *parcel = chain; parcel != NULL; parcel = parcel->next)
        seen[(uintptr_t)parcel->blocks[0]]++;
    return drop_chain(chain);
}

/* Every parcel arrives once, or is refused, while the owner takes a few at a time and closes in the middle. */
UNIT_TEST(many_strangers)
{
    static unsigned char seen[STRANGERS * PARCELS];
    pthread_t threads[STRANGERS];
    size_t got = 0;
    start();
    for (uintptr_t i = 0; i < STRANGERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, post_many, (void *)(i * PARCELS)), 0);
    while (got < PARCELS && atomic_load(&strangers_done) < STRANGERS)
        got += note_chain(hk_inbox_take(&owner, CLASS, 3), seen);
    hk_inboxes_close(&owner);
    for (int i = 0; i < STRANGERS; i++)
        pthread_join(threads[i], NULL);
    got += note_chain(owner.backlog[CLASS], seen);
    hk_inboxes_close(&owner);
    assert_int_equal(got + atomic_load(&refused_at_the_end), STRANGERS * PARCELS);
    for (size_t i = 0; i < STRANGERS * PARCELS; i++)
        assert_true(seen[i] <= 1);
}

/* By another thread, if the owner has not looked at the clock for so long, and is not at its inboxes just now. */
UNIT_TEST(steal)
{
    start();
    hk_store(owner.xawake, 100);
    assert_null(hk_inbox_steal(&owner, CLASS, 10, 100));
    for (uintptr_t i = 1; i <= 3; i++)
        assert_true(hk_inbox_post(&owner, parcel_with(i)));
    assert_null(hk_inbox_steal(&owner, CLASS, 10, 99));
    assert_null(hk_inbox_steal(&owner, CLASS + 1, 10, 100));
    assert_true(hk_try_lock(&owner.drain_lock));
    assert_null(hk_inbox_steal(&owner, CLASS, 10, 100));
    hk_unlock(&owner.drain_lock);
    struct hk_parcel *two = hk_inbox_steal(&owner, CLASS, 2, 100);
    assert_int_equal(two->blocks[0], 3);
    assert_int_equal(drop_chain(two), 2);
    assert_int_equal(drop_chain(hk_inbox_take(&owner, CLASS, 10)), 1);
    assert_null(hk_inbox_steal(&owner, CLASS, 10, 100));
}

static _Atomic bool over;
static unsigned char arrived[AT_ENDS];

static void *steal_until_over(void *unused)
{
    while (!atomic_load(&over))
        note_chain(hk_inbox_steal(&owner, CLASS, 1, UINT64_MAX), arrived);
    return unused;
}

/* A thread's end, again and again, while another one steals: what is closed stays so, and nothing is left behind. */
UNIT_TEST(a_thief_at_the_end)
{
    pthread_t thief;
    start();
    assert_int_equal(pthread_create(&thief, NULL, steal_until_over, NULL), 0);
    for (uintptr_t i = 0; i < AT_ENDS; i += 2) {
        struct hk_parcel *refused = parcel_with(i);
        assert_true(hk_inbox_post(&owner, parcel_with(i)));
        assert_true(hk_inbox_post(&owner, parcel_with(i + 1)));
        hk_inboxes_close(&owner);
        assert_false(hk_inbox_post(&owner, refused));
        hk_parcel_drop(refused);
        while (hk_load(owner.xpending) != 0)
            note_chain(hk_inbox_take(&owner, CLASS, 1), arrived);
        hk_lock(&owner.drain_lock);
        assert_null(owner.backlog[CLASS]);
        hk_unlock(&owner.drain_lock);
        hk_inbox_open(&owner, CLASS);
    }
    atomic_store(&over, true);
    pthread_join(thief, NULL);
    for (size_t i = 0; i < AT_ENDS; i++)
        assert_int_equal(arrived[i], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),
        cmocka_unit_test(no_more_numbers),
        cmocka_unit_test(parcels),
        cmocka_unit_test(post_and_take),
        cmocka_unit_test(close_and_open),
        cmocka_unit_test(many_strangers),
        cmocka_unit_test(steal),
        cmocka_unit_test(a_thief_at_the_end),
    };
    return cmocka_run_group_tests_name("owner", tests, NULL, NULL);
}
