/* Tests the names of options, the texts that options are read from, and values that cannot be read. */
#include "unit/unit.h"

#include <stdio.h>
#include <string.h>

#include "policy/policy.h"
#include "support/rng.h"

static struct hk_options defaults;

/* Reads the options again from this environment and HAKMEM_CONF, as the start does. */
static void read_from(char **environment, const char *conf)
{
    static char *nothing[] = {NULL};
    fake_os.environment = environment != NULL ? environment : nothing;
    fake_os.conf = conf;
    hk_options = defaults;
    fake_os_capture();
    hk_options_read();
}

static size_t lines_said(void)
{
    size_t lines = 0;
    for (const char *at = fake_os.captured; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    return lines;
}

static void assert_nothing_changed(void) { assert_memory_equal(&hk_options, &defaults, sizeof defaults); }

UNIT_TEST(nothing_set)
{
    read_from(NULL, NULL);
    assert_nothing_changed();
    assert_string_equal(fake_os.captured, "");
}

/* Simulates a program that overwrites its environment to show a title in `ps`. */
UNIT_TEST(environment_overwritten)
{
    char entry[] = "HAKMEM_REPORT=/tmp/report.json";
    read_from((char *[]){entry, NULL}, NULL);
    memset(entry, 'x', sizeof entry);
    assert_string_equal(hk_options.report, "/tmp/report.json");
}

UNIT_TEST(text_too_long)
{
    static char entry[9000] = "HAKMEM_REPORT=";
    memset(entry + 14, 'x', sizeof entry - 15);
    read_from((char *[]){entry, NULL}, NULL);
    assert_nothing_changed();
    assert_int_equal(lines_said(), 1);
}

UNIT_TEST(numbers_and_suffixes)
{
    static const struct {
        const char *text;
        uint64_t value;
    } good[] = {{"0", 0},
                {"1", 1},
                {"12345678", 12345678},
                {"4k", 4096},
                {"4K", 4096},
                {"3m", 3 << 20},
                {"3M", 3 << 20},
                {"1g", 1 << 30},
                {"1G", 1 << 30},
                {"000000000000000000000000000007", 7},
                {"1099511627776", (uint64_t)1 << 40},
                {"1024g", (uint64_t)1 << 40}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        char entry[128];
        snprintf(entry, sizeof entry, "HAKMEM_LARGE_CACHE=%s", good[i].text);
        read_from((char *[]){entry, NULL}, NULL);
        assert_string_equal(fake_os.captured, "");
        assert_int_equal(hk_options.large_cache, good[i].value);
    }
}

UNIT_TEST(bad_numbers)
{
    static const char *const bad[] = {"",
                                      " ",
                                      "-1",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "1kk",
                                      "1kb",
                                      "k",
                                      "0x10",
                                      "1.5",
                                      "1e3",
                                      "ten",
                                      "1,",
                                      "18446744073709551616",
                                      "99999999999999999999999999",
                                      "17179869184g",
                                      "1099511627777",
                                      "1025g",
                                      "1\n",
                                      "\xff",
                                      "1t"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char entry[128];
        snprintf(entry, sizeof entry, "HAKMEM_LARGE_CACHE=%s", bad[i]);
        read_from((char *[]){entry, NULL}, NULL);
        assert_nothing_changed();
        assert_int_equal(strncmp(fake_os.captured, "hakmem: option large_cache: \"", 27), 0);
        assert_non_null(strstr(fake_os.captured, "keeping 134217728"));
    }
}

UNIT_TEST(ranges)
{
    char low[] = "HAKMEM_LARGE_FIT=99", high[] = "HAKMEM_LARGE_FIT=401", least[] = "HAKMEM_LARGE_FIT=100",
         most[] = "HAKMEM_LARGE_FIT=400";
    read_from((char *[]){low, high, NULL}, NULL);
    assert_nothing_changed();
    assert_int_equal(lines_said(), 2);
    read_from((char *[]){least, NULL}, NULL);
    assert_int_equal(hk_options.large_fit, 100);
    read_from((char *[]){most, NULL}, NULL);
    assert_int_equal(hk_options.large_fit, 400);
}

/* 1 and 0 mean the words on and off in each table that lists these words. */
UNIT_TEST(numbers_as_words)
{
    static const struct {
        char entry[40];
        uint64_t value;
    } cases[] = {{"HAKMEM_SITE_RULES=1", HK_SITE_RULES_ON},
                 {"HAKMEM_SITE_RULES=on", HK_SITE_RULES_ON},
                 {"HAKMEM_SITE_RULES=0", HK_SITE_RULES_OFF},
                 {"HAKMEM_SITE_RULES=watch", HK_SITE_RULES_WATCH},
                 {"HAKMEM_SITE_RULES=off", HK_SITE_RULES_OFF}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char entry[40];
        read_from((char *[]){strcpy(entry, cases[i].entry), NULL}, NULL);
        assert_string_equal(fake_os.captured, "");
        assert_int_equal(hk_options.site_rules, cases[i].value);
    }
    char learn[] = "HAKMEM_LEARN=0", safe[] = "HAKMEM_SAFE_FREE=1", wrong[] = "HAKMEM_SITE_RULES=2";
    read_from((char *[]){learn, safe, NULL}, NULL);
    assert_int_equal(hk_options.learn, HK_LEARN_OFF);
    assert_int_equal(hk_options.safe_free, HK_SAFE_FREE_ON);
    read_from((char *[]){wrong, NULL}, NULL);
    assert_nothing_changed();
    assert_int_equal(lines_said(), 1);
}

UNIT_TEST(unknown_names)
{
    char *unknown[] = {"HAKMEM_NO_SUCH=1", "HAKMEM_LARGE=1",  "HAKMEM_LARGE_FITS=200",
                       "HAKMEM_=1",        "HAKMEM_CONFIG=1", NULL};
    read_from(unknown, NULL);
    assert_nothing_changed();
    assert_int_equal(lines_said(), 5);
    assert_non_null(strstr(fake_os.captured, "hakmem: unknown option HAKMEM_NO_SUCH is ignored\n"));
    /* These names do not belong to HAKMEM, so nothing is reported. */
    read_from((char *[]){"HAKMEMX=1", "PATH=/bin", "XHAKMEM_LARGE_FIT=200", "HAKMEM", "HAKMEM_LARGE_FIT", "", NULL},
              NULL);
    assert_nothing_changed();
    assert_string_equal(fake_os.captured, "");
}

UNIT_TEST(names_that_are_near)
{
    static const struct {
        char *entry;
        const char *near;
    } rows[] = {{"HAKMEM_REPRT=x", "HAKMEM_REPORT?"},
                {"HAKMEM_REPORTS=x", "HAKMEM_REPORT?"},
                {"HAKMEM_purge_dealy=1", "HAKMEM_PURGE_DELAY?"},
                {"HAKMEM_PROFIL=x", "HAKMEM_PROFILE?"},
                {"HAKMEM_BAL=1", NULL},
                {"HAKMEM_WEATHER=1", NULL},
                {"HAKMEM_=1", NULL},
                {"HAKMEM_REPORT_REPORT_REPORT_REPORT=1", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        read_from((char *[]){rows[i].entry, NULL}, NULL);
        assert_int_equal(lines_said(), 1);
        const char *suggested = strstr(fake_os.captured, "; did you mean ");
        if (rows[i].near == NULL)
            assert_null(suggested);
        else
            assert_non_null(strstr(suggested, rows[i].near));
    }
}

/* HAKMEM_LIBRARY is a variable of the tools, so it is not reported as an unknown option. */
UNIT_TEST(library)
{
    read_from((char *[]){"HAKMEM_LIBRARY=/usr/lib/libhakmem.so", NULL}, NULL);
    assert_string_equal(fake_os.captured, "");
    read_from((char *[]){"HAKMEM_LIBRARYS=1", NULL}, NULL);
    assert_int_equal(lines_said(), 1);
}

UNIT_TEST(conf)
{
    read_from(NULL, "large_fit:200,purge_delay:0,BIN_CAP:7,report:/tmp/a:b,,");
    assert_string_equal(fake_os.captured, "");
    assert_int_equal(hk_options.large_fit, 200);
    assert_int_equal(hk_options.purge_delay, 0);
    assert_int_equal(hk_options.bin_cap, 7);
    assert_string_equal(hk_options.report, "/tmp/a:b");
    /* HAKMEM_LARGE_FIT has priority over large_fit in HAKMEM_CONF. If HAKMEM_CONF sets an option twice, the second value counts. */
    read_from((char *[]){"HAKMEM_LARGE_FIT=300", "HAKMEM_CONF=unused", NULL}, "large_fit:200,large_fit:250,bin_cap:3");
    assert_int_equal(hk_options.large_fit, 300);
    assert_int_equal(hk_options.bin_cap, 3);
    assert_string_equal(fake_os.captured, "");
    read_from(NULL, "purge_dealy:1");
    assert_string_equal(fake_os.captured,
                        "hakmem: HAKMEM_CONF: unknown option purge_dealy is ignored; did you mean purge_delay?\n");
    read_from(NULL, "nonsense,large_fit,large_fit:,:5,no_such:1,large_fit:1x,bin_cap:9");
    assert_int_equal(lines_said(), 6);
    assert_int_equal(hk_options.bin_cap, 9);
    assert_int_equal(hk_options.large_fit, defaults.large_fit);
}

UNIT_TEST(conf_too_long)
{
    static char conf[8192];
    memset(conf, 'a', sizeof conf - 1);
    read_from(NULL, conf);
    assert_nothing_changed();
    assert_int_equal(lines_said(), 1);
    conf[4095] = 0;
    memcpy(conf, "bin_cap:5,", 10);
    read_from(NULL, conf);
    assert_int_equal(hk_options.bin_cap, 5);
}

UNIT_TEST(texts)
{
    read_from((char *[]){"HAKMEM_REPORT=some file", NULL}, NULL);
    assert_string_equal(hk_options.report, "some file");
    read_from((char *[]){"HAKMEM_REPORT=", NULL}, "report:x");
    assert_null(hk_options.report);
}

struct seen {
    size_t count;
    uint64_t large_fit;
    bool report;
};

static void look(void *context, const char *name, const char *text, uint64_t number)
{
    struct seen *seen = context;
    seen->count++;
    if (strcmp(name, "large_fit") == 0)
        seen->large_fit = number;
    if (strcmp(name, "report") == 0)
        seen->report = text != NULL && strcmp(text, "r") == 0 && number == 0;
}

UNIT_TEST(visit)
{
    struct seen seen = {0, 0, false};
    read_from(NULL, "large_fit:222,report:r");
    hk_options_visit(look, &seen);
    assert_int_equal(seen.count, sizeof(struct hk_options) / sizeof(uint64_t));
    assert_int_equal(seen.large_fit, 222);
    assert_true(seen.report);
}

/* Writes a random text that consists of parts of valid options and of random bytes. */
static void random_text(struct rng *rng, char *text, size_t room)
{
    static const char *const pieces[] = {"large_fit", "report", "bin_cap", ":",   ",",       "=",
                                         "1",         "99999",  "k",       "g",   "HAKMEM_", "%s%n",
                                         "learn",     "frozen", "profile", "goal"};
    size_t used = 0;
    for (uint32_t i = rng_below(rng, 12); i > 0; i--) {
        char byte[2] = {(char)(1 + rng_below(rng, 255)), 0};
        const char *piece = rng_below(rng, 3) == 0 ? byte : pieces[rng_below(rng, sizeof pieces / sizeof pieces[0])];
        if (used + strlen(piece) + 1 > room)
            break;
        memcpy(text + used, piece, strlen(piece));
        used += strlen(piece);
    }
    text[used] = 0;
}

UNIT_TEST(random_strings)
{
    struct rng rng = rng_seeded(2);
    for (int i = 0; i < 50000; i++) {
        char conf[160], entry[160] = "HAKMEM_";
        random_text(&rng, conf, sizeof conf);
        random_text(&rng, entry + 7, sizeof entry - 7);
        read_from((char *[]){entry, NULL}, conf);
        assert_in_range(hk_options.large_fit, 100, 400);
        assert_in_range(hk_options.bin_cap, 1, 255);
        assert_in_range(hk_options.learn, HK_LEARN_OFF, HK_LEARN_CANARY);
    }
}

int main(void)
{
    defaults = hk_options;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_set),
        cmocka_unit_test(numbers_and_suffixes),
        cmocka_unit_test(text_too_long),
        cmocka_unit_test(environment_overwritten),
        cmocka_unit_test(bad_numbers),
        cmocka_unit_test(ranges),
        cmocka_unit_test(unknown_names),
        cmocka_unit_test(names_that_are_near),
        cmocka_unit_test(library),
        cmocka_unit_test(conf),
        cmocka_unit_test(conf_too_long),
        cmocka_unit_test(texts),
        cmocka_unit_test(visit),
        cmocka_unit_test(random_strings),
        cmocka_unit_test(numbers_as_words),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
