/* Tests that the memory goal is read from the option, or from control groups v2 and v1, and that the memory in use is read. */
#include "unit/unit.h"

#include <string.h>

#include "learn/learner.h"
#include "os/os.h"
#include "policy/options.h"

#define GB ((uint64_t)1 << 30)
static const struct fake_file nothing[] = {{NULL, NULL}};

static struct hk_signals seen_with(const char *option, const struct fake_file *files)
{
    struct hk_signals seen = {{[HK_SIGNAL_footprint] = 12345}};
    fake_os.files = files != NULL ? files : nothing;
    hk_options.goal = option;
    hk_goal_begin();
    hk_goal_find();
    hk_goal_look(&seen, 1000);
    return seen;
}

static uint64_t goal_with(const char *option, const struct fake_file *files)
{
    struct hk_signals seen = seen_with(option, files);
    return HK_SAW(&seen, goal);
}

UNIT_TEST(none_where_nothing_says_so)
{
    fake_os_reset();
    struct hk_signals seen = seen_with(NULL, NULL);
    assert_int_equal(HK_SAW(&seen, goal), 0);
    assert_int_equal(HK_SAW(&seen, used), 12345);
    assert_int_equal(HK_SAW(&seen, cpus), 4);
}

UNIT_TEST(the_option)
{
    static const struct fake_file files[] = {
        {"/proc/self/statm", "900 700 200 1 0 1 0\n"},
        {"/proc/pressure/memory", "some avg10=0.00 avg60=0 avg300=0 total=77\nfull total=5\n"},
        {NULL, NULL}};
    static const struct fake_file later[] = {{"/proc/pressure/memory", "some total=100\n"}, {NULL, NULL}};
    fake_os_reset();
    struct hk_signals seen = seen_with("200m", files);
    assert_int_equal(HK_SAW(&seen, goal), 200 << 20);
    assert_int_equal(HK_SAW(&seen, used), 500 * hk_system_page()); /* The file counts pages of the system. */
    assert_int_equal(HK_SAW(&seen, stalled), 0);                   /* The first look has no earlier total. */
    fake_os.files = later;
    hk_goal_look(&seen, 1500);
    assert_int_equal(HK_SAW(&seen, stalled), 23);
    assert_int_equal(goal_with("25%", files), 8 * GB / 100 * 25);
    assert_int_equal(goal_with("none", files), 0);
}

UNIT_TEST(nonsense_is_said)
{
    static const char *const bad[] = {"0", "0%", "101%", "-5", "many", "5 m", "%", "99999999999999999999"};
    fake_os_reset();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fake_os_capture();
        assert_int_equal(goal_with(bad[i], NULL), 0);
        assert_non_null(strstr(fake_os.captured, "option goal: "));
    }
}

UNIT_TEST(version_2)
{
    static const struct fake_file files[] = {{"/proc/self/cgroup", "1:name=x:/\n0::/a/b\n"},
                                             {"/sys/fs/cgroup/a/b/memory.max", "max\n"},
                                             {"/sys/fs/cgroup/a/b/memory.high", "3500000000\n"},
                                             {"/sys/fs/cgroup/a/b/cpu.max", "150000 100000\n"},
                                             {"/sys/fs/cgroup/a/memory.high", "3000000000\n"},
                                             {"/sys/fs/cgroup/memory.max", "4000000000\n"},
                                             {NULL, NULL}};
    fake_os_reset();
    struct hk_signals seen = seen_with(NULL, files);
    assert_int_equal(HK_SAW(&seen, goal), 3500000000); /* Without the option, no parent group is read. */
    assert_int_equal(HK_SAW(&seen, cpus), 2);
    assert_int_equal(HK_SAW(&seen, used), 12345); /* Without the option, the caller's value is used. */
    assert_int_equal(goal_with("50%", files), 3000000000 / 100 * 50);
    assert_int_equal(goal_with("none", files), 0);
}

UNIT_TEST(version_1)
{
    static const struct fake_file files[] = {{"/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/7\n"},
                                             {"/sys/fs/cgroup/memory/docker/7/memory.limit_in_bytes", "1073741824\n"},
                                             {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
                                             {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n"},
                                             {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"},
                                             {NULL, NULL}};
    fake_os_reset();
    struct hk_signals seen = seen_with(NULL, files);
    assert_int_equal(HK_SAW(&seen, goal), GB);
    assert_int_equal(HK_SAW(&seen, cpus), 1);
}

UNIT_TEST(a_limit_beyond_what_there_is_is_none)
{
    static const struct fake_file files[] = {{"/proc/self/cgroup", "4:memory:/\n"},
                                             {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
                                             {NULL, NULL}};
    fake_os_reset();
    assert_int_equal(goal_with(NULL, files), 0);
}

UNIT_TEST(limits_are_read_again_where_asked_for)
{
    static const struct fake_file before[] = {
        {"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/memory.max", "2000000000\n"}, {NULL, NULL}};
    static const struct fake_file after[] = {
        {"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/memory.max", "1000000000\n"}, {NULL, NULL}};
    fake_os_reset();
    struct hk_signals seen = {{0}};
    assert_int_equal(goal_with("50%", before), 1000000000);
    fake_os.files = after;
    hk_goal_look(&seen, 1500);
    assert_int_equal(HK_SAW(&seen, goal), 1000000000);
    hk_goal_look(&seen, 3000);
    assert_int_equal(HK_SAW(&seen, goal), 500000000);
    assert_int_equal(goal_with(NULL, before), 2000000000);
    fake_os.files = after;
    hk_goal_look(&seen, 9000);
    assert_int_equal(HK_SAW(&seen, goal),
                     2000000000); /* Without the option, later looks do not read the limit again. */
}

/* A control group whose name is too long for a path sets no limit. */
UNIT_TEST(a_name_that_is_too_long)
{
    static char of_2[1000], of_1[1000];
    static const struct fake_file files_2[] = {{"/proc/self/cgroup", of_2}, {NULL, NULL}},
                                  files_1[] = {{"/proc/self/cgroup", of_1}, {NULL, NULL}};
    memset(of_2, 'a', sizeof of_2 - 1);
    memset(of_1, 'a', sizeof of_1 - 1);
    memcpy(of_2, "0::/", 4);
    memcpy(of_1, "4:memory:/", 10);
    of_1[9 + 510] = '\n';
    of_2[sizeof of_2 - 2] = '\n';
    fake_os_reset();
    assert_int_equal(goal_with(NULL, files_2), 0);
    assert_int_equal(goal_with(NULL, files_1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_where_nothing_says_so),
        cmocka_unit_test(the_option),
        cmocka_unit_test(nonsense_is_said),
        cmocka_unit_test(version_2),
        cmocka_unit_test(version_1),
        cmocka_unit_test(a_name_that_is_too_long),
        cmocka_unit_test(a_limit_beyond_what_there_is_is_none),
        cmocka_unit_test(limits_are_read_again_where_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
