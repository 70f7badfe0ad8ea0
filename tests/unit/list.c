/* Tests the order of a list, removal at any place, and links that know whether they are linked. */
#include "unit/unit.h"

#include "base/list.h"

struct item {
    int value;
    struct hk_link link;
};

static void assert_order(struct hk_list *list, const int *values, size_t count)
{
    struct hk_link *link = list->head.next;
    for (size_t i = 0; i < count; i++, link = link->next) {
        assert_int_equal(hk_container_of(link, struct item, link)->value, values[i]);
        assert_ptr_equal(link->next->prev, link);
        assert_true(hk_link_linked(link));
    }
    assert_ptr_equal(link, &list->head);
    assert_int_equal(hk_list_empty(list), count == 0);
}

UNIT_TEST(empty)
{
    struct hk_list list;
    hk_list_init(&list);
    assert_true(hk_list_empty(&list));
    assert_null(hk_list_first(&list));
}

UNIT_TEST(push_and_remove)
{
    struct hk_list list;
    struct item items[4] = {{.value = 0}, {.value = 1}, {.value = 2}, {.value = 3}};
    hk_list_init(&list);
    for (int i = 0; i < 4; i++)
        assert_false(hk_link_linked(&items[i].link));
    hk_list_push_back(&list, &items[1].link);
    hk_list_push_back(&list, &items[2].link);
    hk_list_push_front(&list, &items[0].link);
    hk_link_insert_after(&items[2].link, &items[3].link);
    assert_order(&list, (const int[]){0, 1, 2, 3}, 4);
    hk_link_remove(&items[1].link);
    assert_false(hk_link_linked(&items[1].link));
    assert_order(&list, (const int[]){0, 2, 3}, 3);
    hk_link_remove(&items[0].link);
    hk_link_remove(&items[3].link);
    assert_order(&list, (const int[]){2}, 1);
    hk_link_remove(&items[2].link);
    assert_order(&list, NULL, 0);
    hk_list_push_front(&list, &items[3].link);
    assert_ptr_equal(hk_list_first(&list), &items[3].link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty),
        cmocka_unit_test(push_and_remove),
    };
    return cmocka_run_group_tests_name("list", tests, NULL, NULL);
}
