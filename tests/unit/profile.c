/* Tests profiles: their names, their files, which setting has priority, and the message about a profile that cannot be read. */
#include "unit/unit.h"

#include <stdio.h>
#include <string.h>

#include "policy/policy.h"
#include "support/rng.h"

static struct hk_options defaults;

static void read_with(char *variable, const char *conf, const struct fake_file *files)
{
    static char *environment[2];
    environment[0] = variable;
    fake_os.environment = environment;
    fake_os.conf = conf;
    fake_os.files = files;
    hk_options = defaults;
    fake_os_capture();
    hk_options_read();
}

static bool said(const char *what) { return strstr(fake_os.captured, what) != NULL; }

UNIT_TEST(a_name)
{
    read_with("HAKMEM_PROFILE=compact", NULL, NULL);
    assert_int_equal(hk_options.purge_delay, 100);
    assert_int_equal(hk_options.background, 1);
    assert_string_equal(fake_os.captured, "");
    read_with("HAKMEM_PROFILE=balanced", NULL, NULL);
    assert_int_equal(hk_options.purge_delay, defaults.purge_delay);
}

UNIT_TEST(what_is_set_by_itself_goes_before)
{
    read_with("HAKMEM_PURGE_DELAY=7", "large_fit:111,profile:compact,depot:5", NULL);
    assert_int_equal(hk_options.purge_delay, 7);
    assert_int_equal(hk_options.large_fit, 111);
    assert_int_equal(hk_options.depot, 5);
    assert_int_equal(hk_options.thread_cache, 1 << 20);
}

UNIT_TEST(in_any_case)
{
    read_with("HAKMEM_profile=compact", NULL, NULL);
    assert_int_equal(hk_options.purge_delay, 100);
    read_with("HAKMEM_DEPOT=5", "large_fit:111,Profile:compact", NULL);
    assert_int_equal(hk_options.purge_delay, 100);
}

UNIT_TEST(a_file)
{
    static const struct fake_file files[] = {
        {"/p", "# hakmem profile\n\n  purge_delay=  250 # ms\nlearn = frozen\r\n#\nlarge_cache = 3m"}, {NULL, NULL}};
    read_with("HAKMEM_PROFILE=/p", NULL, files);
    assert_int_equal(hk_options.purge_delay, 250);
    assert_int_equal(hk_options.learn, HK_LEARN_FROZEN);
    assert_int_equal(hk_options.large_cache, 3 << 20);
    assert_string_equal(fake_os.captured, "");
}

UNIT_TEST(nonsense_is_said_and_the_rest_is_read)
{
    static const struct fake_file files[] = {
        {"/p", "purge_delay\nnot_an_option = 1\nlarge_fit = 99\n = 3\nlearn = sometimes\ndepot = 9\n"}, {NULL, NULL}};
    read_with("HAKMEM_PROFILE=/p", NULL, files);
    assert_int_equal(hk_options.depot, 9);
    assert_int_equal(hk_options.large_fit, defaults.large_fit);
    assert_int_equal(hk_options.learn, HK_LEARN_ON);
    assert_true(said(
        "profile \"/p\": 3 of 6 lines are ignored, the first is line 1, which is not of the form name = value; did you mean purge_delay?\n"));
    assert_true(said("option large_fit: \"99\" is not a number in 100..400"));
    assert_true(said("option learn: \"sometimes\" is not one of off|on|frozen|canary"));
    read_with("HAKMEM_PROFILE=/nowhere", NULL, files);
    assert_true(said("profile \"/nowhere\" is ignored"));
    assert_memory_equal(&hk_options.purge_delay, &defaults.purge_delay, sizeof defaults.purge_delay);
}

static size_t lines_said(void)
{
    size_t lines = 0;
    for (const char *at = fake_os.captured; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    return lines;
}

/* Tests HAKMEM_PROFILE=/etc/passwd: the message must not show the contents of the file. */
UNIT_TEST(a_file_that_is_no_profile_is_not_shown)
{
    static const struct fake_file files[] = {
        {"/p", "root:x:0:0:root:/root:/bin/bash\nsecret = hunter2\npurge_dealy = 7\nuser:$6$x=\n"}, {NULL, NULL}};
    read_with("HAKMEM_PROFILE=/p", NULL, files);
    assert_int_equal(lines_said(), 1);
    assert_true(said("profile \"/p\": 4 of 4 lines"));
    assert_false(said("root") || said("secret") || said("hunter2") || said("user"));
}

UNIT_TEST(any_bytes_do_no_harm)
{
    static char bytes[600];
    struct fake_file files[] = {{"/p", bytes}, {NULL, NULL}};
    struct rng rng = rng_seeded(7);
    for (int round = 0; round < 20000; round++) {
        size_t length = rng_below(&rng, (uint32_t)sizeof bytes - 1);
        for (size_t i = 0; i < length; i++)
            bytes[i] = "purge_delaybig_fit=# \n09kmg\xff\t%:"[rng_below(&rng, 30)];
        bytes[length] = 0;
        read_with("HAKMEM_PROFILE=/p", NULL, files);
        assert_in_range(hk_options.large_fit, 100, 400);
    }
}

UNIT_TEST(what_is_written_is_read_again)
{
    struct hk_knobs knobs;
    for (unsigned knob = 0; knob < HK_KNOBS; knob++)
        knobs.value[knob] = hk_knob_rows[knob].min + 1;
    fake_os_capture();
    struct hk_text saved = {.fd = 1};
    hk_profile_add(&saved, &knobs);
    hk_text_flush(&saved);
    static char text[4096];
    strcpy(text, fake_os.captured);
    const struct fake_file files[] = {{"/p", text}, {NULL, NULL}};
    read_with("HAKMEM_PROFILE=/p", NULL, files);
    assert_string_equal(fake_os.captured, "");
    hk_policy_begin();
    struct hk_knobs again;
    hk_policy_read(&again);
    assert_memory_equal(&again, &knobs, sizeof knobs);
}

UNIT_TEST(names_that_are_none)
{
    static char name[2000];
    fake_os_reset();
    fake_os_capture();
    memset(name, 'a', sizeof name - 1);
    hk_profile_apply(name);
    assert_non_null(strstr(fake_os.captured, "is neither one of balanced"));
    fake_os_capture();
    hk_profile_apply("through"); /* The beginning of a profile's name is not accepted. */
    assert_non_null(strstr(fake_os.captured, "is neither one of balanced"));
}

int main(void)
{
    defaults = hk_options;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name),
        cmocka_unit_test(in_any_case),
        cmocka_unit_test(what_is_set_by_itself_goes_before),
        cmocka_unit_test(a_file),
        cmocka_unit_test(names_that_are_none),
        cmocka_unit_test(nonsense_is_said_and_the_rest_is_read),
        cmocka_unit_test(a_file_that_is_no_profile_is_not_shown),
        cmocka_unit_test(any_bytes_do_no_harm),
        cmocka_unit_test(what_is_written_is_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
