/* Tests that the log returns decisions complete and in the order of their writing. Decisions for which the log has no room are counted. */
#include "unit/unit.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "count/decisions.h"

enum { WRITERS = 3, EACH = 20000 };

static struct hk_decision made(uint64_t thread, uint64_t n)
{
    return (struct hk_decision){
        .ms = n, .before = n + 1, .after = n + 2, .seen = {n + 3, n + 4, n + 5}, .thread = thread, .size = n + 6};
}

UNIT_TEST(in_order_round_and_round)
{
    struct hk_decision got;
    assert_false(hk_decision_take(&got));
    for (uint64_t n = 0; n < 5 * HK_DECISIONS_HELD; n++) {
        struct hk_decision put = made(1, n);
        hk_decision_note(&put);
        assert_true(hk_decision_take(&got));
        assert_memory_equal(&got, &put, sizeof put);
        assert_false(hk_decision_take(&got));
    }
    assert_int_equal(hk_decisions_lost(), 0);
}

UNIT_TEST(what_finds_no_room_is_counted)
{
    struct hk_decision got;
    for (uint64_t n = 0; n < HK_DECISIONS_HELD + 10; n++) {
        struct hk_decision put = made(1, n);
        hk_decision_note(&put);
    }
    assert_int_equal(hk_decisions_lost(), 10);
    assert_int_equal(hk_decisions_lost(), 0);
    for (uint64_t n = 0; n < HK_DECISIONS_HELD; n++) {
        assert_true(hk_decision_take(&got));
        assert_int_equal(got.ms, n);
    }
    assert_false(hk_decision_take(&got));
}

static _Atomic int xwriting;

static void *write_all(void *thread)
{
    for (uint64_t n = 0; n < EACH; n++) {
        struct hk_decision put = made((uintptr_t)thread, n);
        hk_decision_note(&put);
    }
    hk_sub(xwriting, 1);
    return NULL;
}

UNIT_TEST(many_writers)
{
    pthread_t threads[WRITERS + 1];
    uint64_t next[WRITERS + 1] = {0}, taken = 0;
    struct hk_decision got;
    hk_store(xwriting, WRITERS);
    for (uintptr_t thread = 1; thread <= WRITERS; thread++)
        assert_int_equal(pthread_create(&threads[thread], NULL, write_all, (void *)thread), 0);
    for (bool more = true; more;) {
        more = hk_load(xwriting) > 0;
        for (; hk_decision_take(&got); taken++, more = true) {
            struct hk_decision expected = made(got.thread, got.ms);
            assert_memory_equal(&got, &expected, sizeof got);
            /* The decisions of each thread are in order, although some decisions are lost. */
            assert_true(got.ms >= next[got.thread]);
            next[got.thread] = got.ms + 1;
        }
        sched_yield();
    }
    for (int thread = 1; thread <= WRITERS; thread++)
        pthread_join(threads[thread], NULL);
    while (hk_decision_take(&got))
        taken++;
    assert_int_equal(taken + hk_decisions_lost(), WRITERS * EACH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_order_round_and_round),
                                       cmocka_unit_test(what_finds_no_room_is_counted), cmocka_unit_test(many_writers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
