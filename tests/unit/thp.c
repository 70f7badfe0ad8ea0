/* Tests whether huge pages count as available, for each setting in the system's files. */
#include "unit/unit.h"

#include "span/chunks.h"

#define MODE "/sys/kernel/mm/transparent_hugepage/enabled"
#define SIZE "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size"

static bool serves(const char *mode, const char *size)
{
    struct fake_file files[] = {
        {mode != NULL ? MODE : "none", mode}, {size != NULL ? SIZE : "none", size}, {NULL, NULL}};
    fake_os.files = files;
    hk_thp_look();
    fake_os.files = NULL;
    return hk_thp_serves();
}

UNIT_TEST(modes)
{
    assert_true(serves("always [madvise] never\n", "2097152\n"));
    assert_true(serves("[always] madvise never\n", "2097152\n"));
    assert_false(serves("always madvise [never]\n", "2097152\n"));
    assert_false(serves("always madvise [never]\n", NULL));
}

UNIT_TEST(sizes)
{
    assert_false(serves("always [madvise] never\n", "536870912\n"));
    assert_false(serves("always [madvise] never\n", "33554432\n"));
    assert_true(serves("always [madvise] never\n", "2097152\n"));
}

/* If the files do not exist, huge pages count as available, because the advice has no effect then. */
UNIT_TEST(no_files)
{
    assert_true(serves(NULL, NULL));
    assert_true(serves("always [madvise] never\n", NULL));
    assert_true(serves("", ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(modes), cmocka_unit_test(sizes), cmocka_unit_test(no_files)};
    return cmocka_run_group_tests_name("thp", tests, NULL, NULL);
}
