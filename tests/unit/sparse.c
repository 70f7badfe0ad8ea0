/* Sparse: windows are committed when asked for, once, and what is refused can be asked for again. */
#include "unit/unit.h"

#include "span/sparse.h"

#define SIZE ((size_t)HK_SPARSE_WINDOWS * 2 * HK_PAGE)

static struct hk_sparse sparse;

UNIT_TEST(windows)
{
    assert_true(hk_sparse_reserve(&sparse, SIZE, HK_ACCESS_NONE));
    assert_int_equal(sparse.window, 2 * HK_PAGE);
    assert_true(sparse.size >= SIZE);
    assert_int_equal(hk_sparse_committed(&sparse), 0);
    fake_os_refuse(NULL);
    assert_true(hk_sparse_cover_slow(&sparse, 3 * sparse.window - 1, 2));
    assert_in_range(fake_os_calls(FAKE_COMMIT), 1, 2);
    assert_int_equal(hk_sparse_committed(&sparse), 2 * sparse.window);
    assert_false(hk_sparse_covers(&sparse, 1));
    assert_true(hk_sparse_covers(&sparse, 2) && hk_sparse_covers(&sparse, 3));
    for (size_t at = 2 * sparse.window; at < 4 * sparse.window; at++) {
        assert_int_equal(sparse.base[at], 0);
        sparse.base[at] = 1;
    }
    assert_true(hk_sparse_cover_slow(&sparse, 0, 5 * sparse.window));
    assert_in_range(fake_os_calls(FAKE_COMMIT), 2, 5);
    assert_int_equal(hk_sparse_committed(&sparse), 5 * sparse.window);
    assert_int_equal(sparse.base[3 * sparse.window], 1); /* nobody committed it a second time */
    fake_os_refuse(fake_refuse_commit);
    assert_true(hk_sparse_cover_slow(&sparse, 0, 5 * sparse.window));
    assert_false(hk_sparse_cover_slow(&sparse, 0, 6 * sparse.window));
    fake_os_refuse(NULL);
    assert_true(hk_sparse_cover_slow(&sparse, sparse.size - 1, 1));
    sparse.base[sparse.size - 1] = 1;
}

UNIT_TEST(reads_as_zero)
{
    assert_true(hk_sparse_reserve(&sparse, 5, HK_ACCESS_READ));
    assert_int_equal(sparse.window, HK_PAGE);
    for (size_t at = 0; at < sparse.size; at += HK_PAGE)
        assert_int_equal(sparse.base[at], 0);
}

/* Windows are whole pages and no more: any number of them. All of the array is inside its mapping, none of the neighbours is. */
UNIT_TEST(any_size)
{
    for (size_t pages = 1; pages < 60000; pages = pages * 5 / 4 + 1) {
        size_t size = pages * HK_PAGE - 7;
        char *fence = hk_os.map(4 * HK_PAGE, HK_ACCESS_WRITE);
        assert_true(hk_sparse_reserve(&sparse, size, HK_ACCESS_NONE));
        assert_true(sparse.size >= size);
        assert_int_equal(sparse.size % sparse.window, 0);
        assert_true(sparse.size / sparse.window <= HK_SPARSE_WINDOWS);
        fence[0] = fence[4 * HK_PAGE - 1] = 1;
        assert_true(hk_sparse_cover_slow(&sparse, 0, size));
        assert_int_equal(hk_sparse_committed(&sparse), sparse.size);
        assert_true(fence[0] == 1 && fence[4 * HK_PAGE - 1] == 1);
        sparse.base[size - 1] = 1;
        hk_sparse_drop(&sparse);
    }
}

UNIT_TEST(refusals)
{
    fake_os_refuse(fake_refuse_map);
    assert_false(hk_sparse_reserve(&sparse, SIZE, HK_ACCESS_NONE));
    hk_sparse_drop(&sparse);
    fake_os_refuse(NULL);
    assert_true(hk_sparse_reserve(&sparse, SIZE, HK_ACCESS_NONE));
    assert_true(hk_sparse_cover_slow(&sparse, sparse.window, 1));
    fake_os_refuse(fake_refuse_commit);
    assert_false(hk_sparse_cover_slow(&sparse, 0, 3 * sparse.window));
    assert_int_equal(hk_sparse_committed(&sparse), sparse.window);
    fake_os_refuse(NULL);
    assert_true(hk_sparse_cover_slow(&sparse, 0, 3 * sparse.window));
    sparse.base[3 * sparse.window - 1] = 1;
}

/* What was covered in a reservation that is gone is not covered in the next. */
UNIT_TEST(dropped_and_reserved_again)
{
    assert_true(hk_sparse_reserve(&sparse, SIZE, HK_ACCESS_NONE));
    assert_true(hk_sparse_cover_slow(&sparse, 0, 1));
    hk_sparse_drop(&sparse);
    assert_null(sparse.base);
    assert_true(hk_sparse_reserve(&sparse, SIZE, HK_ACCESS_NONE));
    assert_true(hk_sparse_cover_slow(&sparse, 0, 1));
    *(volatile char *)sparse.base = 1;
}

/* Stretches are found in order, clipped to where one looks, neighbours as one. */
UNIT_TEST(stretches)
{
    assert_true(hk_sparse_reserve(&sparse, SIZE, HK_ACCESS_NONE));
    uintptr_t base = (uintptr_t)sparse.base, window = sparse.window, from = 0, to = UINTPTR_MAX;
    assert_false(hk_sparse_next(&sparse, &from, &to));
    assert_true(hk_sparse_cover_slow(&sparse, 2 * window, 2 * window));
    assert_true(hk_sparse_cover_slow(&sparse, 6 * window, 1));
    assert_true(hk_sparse_next(&sparse, &from, &to));
    assert_int_equal(from, base + 2 * window);
    assert_int_equal(to, base + 4 * window);
    from = base + 3 * window + HK_PAGE;
    to = from + HK_PAGE;
    assert_true(hk_sparse_next(&sparse, &from, &to));
    assert_int_equal(from, base + 3 * window + HK_PAGE);
    assert_int_equal(to, from + HK_PAGE);
    from = base + 4 * window;
    to = UINTPTR_MAX;
    assert_true(hk_sparse_next(&sparse, &from, &to));
    assert_int_equal(from, base + 6 * window);
    assert_int_equal(to, base + 7 * window);
    from = to;
    to = UINTPTR_MAX;
    assert_false(hk_sparse_next(&sparse, &from, &to));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(windows), cmocka_unit_test(reads_as_zero),
                                       cmocka_unit_test(any_size), cmocka_unit_test(refusals),
                                       cmocka_unit_test(dropped_and_reserved_again), cmocka_unit_test(stretches)};
    return cmocka_run_group_tests_name("sparse", tests, NULL, NULL);
}
