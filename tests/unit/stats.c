/* Tests that each row of stats.def has a name, a unit and a meaning, and that the sums are right when many threads count. */
#include "unit/unit.h"

#include <pthread.h>
#include <string.h>

#include "count/stats.h"

enum { THREADS = 3, ROUNDS = 10000 };

UNIT_TEST(rows)
{
    assert_true(HK_THREAD_STATS > 0 && HK_THREAD_STATS < HK_STAT_ROWS);
    for (unsigned i = 0; i < HK_STAT_ROWS; i++) {
        const struct hk_stat_row *row = &hk_stat_rows[i];
        assert_true(strlen(row->name) > 0 && strlen(row->unit) > 0 && strlen(row->meaning) > 0);
        for (unsigned j = 0; j < i; j++)
            assert_string_not_equal(row->name, hk_stat_rows[j].name);
    }
}

static void *count(void *unused)
{
    for (int i = 0; i < ROUNDS; i++)
        HK_COUNT(purges, 2);
    return unused;
}

UNIT_TEST(global)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_purges]), THREADS * ROUNDS * 2);
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_purged_bytes]), 0);
}

UNIT_TEST(per_thread)
{
    static struct hk_thread_counts counts;
    HK_COUNT_THREAD(&counts, overflows, 3);
    HK_COUNT_THREAD(&counts, overflows, 4);
    assert_int_equal(hk_load(counts.xvalue[HK_THREAD_overflows]), 7);
    assert_int_equal(hk_load(counts.xvalue[HK_THREAD_remote_frees]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows), cmocka_unit_test(global), cmocka_unit_test(per_thread)};
    return cmocka_run_group_tests_name("stats", tests, NULL, NULL);
}
