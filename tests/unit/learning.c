/* Tests that misses make the learner tick every 150 ms, that its decisions take effect and are logged, and that the heap keeps its ceiling. */
#include "unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "count/decisions.h"
#include "hakmem.h"
#include "learn/learner.h"
#include "policy/policy.h"
#include "runtime/learning.h"
#include "support/knobs.h"
#include "decay/decay.h"

enum { BLOCKS = 4096 };

static void make_slow_calls(void)
{
    static void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = hak_malloc(4096);
    for (size_t i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
}

static void let_ticks_pass(unsigned ticks)
{
    for (; ticks > 0; ticks--) {
        fake_os_pass_ms(151);
        make_slow_calls();
    }
}

/* Simulates a program that allocates only by posix_memalign(). The blocks are too large for a bin, so each call is slow. */
static void make_aligned_calls(void)
{
    for (size_t i = 0; i < 64; i++) {
        void *block = NULL;
        assert_int_equal(hak_posix_memalign(&block, 64, 2 * HK_MIB), 0);
        hak_free(block);
    }
}

static size_t lines_in(const char *text, const char *what)
{
    size_t lines = 0;
    for (; (text = strstr(text, what)) != NULL; text++)
        lines++;
    return lines;
}

/* Starts the heap with the options that the test has set. */
static void start(void)
{
    static char statm[64];
    static const struct fake_file files[] = {{"/proc/self/statm", statm}, {NULL, NULL}};
    size_t page = hk_system_page();
    fake_os_reset();
    snprintf(statm, sizeof statm, "%zu %zu %zu 1 0 1 0\n", 9000 * HK_PAGE / page, 700 * HK_PAGE / page,
             200 * HK_PAGE / page);
    fake_os.files = files;
    fake_os_capture();
    unit_start();
}

UNIT_TEST(a_tick_each_150_ms)
{
    hk_options.learn_trace = "-";
    start();
    for (int i = 0; i < 10; i++)
        make_slow_calls();
    assert_int_equal(lines_in(fake_os.captured, "tick "), 0);
    let_ticks_pass(7);
    assert_int_equal(lines_in(fake_os.captured, "options "), 1);
    assert_int_equal(lines_in(fake_os.captured, "tick "), 7);
}

/* Returns the last number of the trace's first line, which says which rules are on (enum hk_rule). */
static unsigned long rules_in(const char *trace)
{
    return strtoul(strrchr(strtok((char *)trace, "\n"), ' '), NULL, 10);
}

UNIT_TEST(what_has_no_measured_gain_is_off_unless_asked_for)
{
    hk_options.learn_trace = "-";
    start();
    let_ticks_pass(1);
    assert_int_equal(rules_in(fake_os.captured), HK_RULE_DELAY | HK_RULE_CAPS | HK_RULE_HUGE | HK_RULE_BURST);
}

UNIT_TEST(each_rule_is_switched_by_its_option)
{
    hk_options.learn_trace = "-";
    hk_options.learn_crowd = hk_options.learn_remote = true;
    hk_options.learn_delay = hk_options.learn_huge = hk_options.learn_burst = false;
    start();
    let_ticks_pass(1);
    assert_int_equal(rules_in(fake_os.captured), HK_RULE_CROWD | HK_RULE_CAPS | HK_RULE_REMOTE);
}

UNIT_TEST(none_when_it_is_off)
{
    hk_options.learn_trace = "-";
    hk_options.learn = HK_LEARN_OFF;
    start();
    let_ticks_pass(7);
    assert_string_equal(fake_os.captured, "");
}

UNIT_TEST(the_goal_holds_from_the_beginning)
{
    hk_options.goal = "100m";
    hk_options.explain = "-";
    start();
    assert_in_range(HK_POLICY(ceiling), 80 * HK_MIB, 100 * HK_MIB);
    let_ticks_pass(1);
    assert_int_equal(lines_in(fake_os.captured, "\"what\": \"ceiling\""), 1);
}

UNIT_TEST(bins_say_why)
{
    hk_options.explain = "-";
    start();
    let_ticks_pass(2);
    assert_true(lines_in(fake_os.captured, "\"who\": \"class\"") >= 1);
    assert_true(lines_in(fake_os.captured, "\"class\": 4096, \"what\": \"capacity\", \"old\": 0") >= 1);
}

UNIT_TEST(the_log_ends_where_it_has_to)
{
    hk_options.explain = "-";
    hk_options.explain_most = 4096;
    start();
    for (unsigned size = 16; size <= 32768; size += size / 4) {
        void *blocks[600];
        for (int i = 0; i < 600; i++)
            blocks[i] = hak_malloc(size);
        for (int i = 0; i < 600; i++)
            hak_free(blocks[i]);
        let_ticks_pass(1);
    }
    assert_int_equal(lines_in(fake_os.captured, "\"who\": \"log\""), 1);
    assert_true(strlen(fake_os.captured) <= 4096 + 200);
}

UNIT_TEST(a_tick_of_posix_memalign)
{
    hk_options.learn_trace = "-";
    start();
    for (int i = 0; i < 5; i++) {
        fake_os_pass_ms(151);
        make_aligned_calls();
    }
    assert_in_range(lines_in(fake_os.captured, "tick "), 4, 5);
}

UNIT_TEST(what_the_log_has_no_room_for_is_told)
{
    hk_options.explain = "-";
    start();
    struct hk_decision decision = {.kind = HK_DECISION_bin_grown, .thread = 2};
    for (int i = 0; i < HK_DECISIONS_HELD + 7; i++)
        hk_decision_note(&decision);
    let_ticks_pass(1);
    assert_true(lines_in(fake_os.captured, "\"who\": \"class\"") >= HK_DECISIONS_HELD);
    assert_int_equal(lines_in(fake_os.captured, "\"who\": \"log\", \"lost\": "), 1);
    assert_int_equal(lines_in(fake_os.captured, "\"lost\": 0"), 0);
}

UNIT_TEST(a_limit_is_kept_and_goes_on)
{
    hk_options.limit = 32 * HK_MIB;
    hk_options.oom_report = 0;
    start();
    static void *blocks[8192];
    for (int round = 0; round < 3; round++) {
        size_t n = 0;
        while (n < 8192 && (blocks[n] = hak_malloc(16000)) != NULL)
            n++;
        assert_int_equal(errno, ENOMEM);
        assert_in_range(n * 16000, 24 * HK_MIB, 32 * HK_MIB);
        assert_null(hak_malloc(8 * HK_MIB));
        for (size_t i = 0; i < n; i++)
            hak_free(blocks[i]);
        void *large = hak_malloc(20 * HK_MIB);
        assert_non_null(large);
        assert_null(hak_realloc(large, 40 * HK_MIB));
        assert_null(hak_malloc(20 * HK_MIB));
        hak_free(large);
    }
}

/* Idle memory is purged before the heap grows above the ceiling. */
UNIT_TEST(the_ceiling_is_kept)
{
    fake_os_reset();
    SET_KNOB(ceiling, 64 * HK_MIB);
    unit_start();
    for (int round = 0; round < 8; round++) {
        for (size_t mib = 2; mib <= 40; mib += 6) {
            void *block = hak_malloc(mib * HK_MIB);
            hak_free(block);
            assert_in_range(hk_decay_footprint(), 0, (64 + 40) * HK_MIB);
        }
        make_slow_calls();
        assert_in_range(hk_decay_footprint(), 0, 64 * HK_MIB);
    }
}

/* Starts in a control group with a limit of 100 MiB. The limit is not read while the heap is small. */
static void start_in_group(void)
{
    static const struct fake_file files[] = {
        {"/proc/self/cgroup", "0::/a\n"}, {"/sys/fs/cgroup/a/memory.max", "104857600\n"}, {NULL, NULL}};
    fake_os_reset();
    fake_os.files = files;
    unit_start();
}

static bool has_goal(void) { return HK_POLICY(ceiling) < 100 * HK_MIB; }

UNIT_TEST(a_group_is_read_once_the_heap_has_4_mib)
{
    start_in_group();
    fake_os_pass_ms(151);
    for (size_t i = 0; i < 500; i++)
        assert_non_null(hak_malloc(4096));
    assert_false(has_goal());
    make_slow_calls();
    assert_true(has_goal());
}

UNIT_TEST(a_group_is_read_before_a_sandbox)
{
    start_in_group();
    hk_learning_shut_in();
    fake_os.files = NULL;
    for (size_t i = 0; i < 100; i++)
        assert_non_null(hak_malloc(4096));
    assert_true(has_goal());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tick_each_150_ms),
        cmocka_unit_test(what_has_no_measured_gain_is_off_unless_asked_for),
        cmocka_unit_test(each_rule_is_switched_by_its_option),
        cmocka_unit_test(none_when_it_is_off),
        cmocka_unit_test(the_goal_holds_from_the_beginning),
        cmocka_unit_test(bins_say_why),
        cmocka_unit_test(the_log_ends_where_it_has_to),
        cmocka_unit_test(what_the_log_has_no_room_for_is_told),
        cmocka_unit_test(a_tick_of_posix_memalign),
        cmocka_unit_test(a_limit_is_kept_and_goes_on),
        cmocka_unit_test(the_ceiling_is_kept),
        cmocka_unit_test(a_group_is_read_once_the_heap_has_4_mib),
        cmocka_unit_test(a_group_is_read_before_a_sandbox),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
