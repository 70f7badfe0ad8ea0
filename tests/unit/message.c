/* Tests that messages are formatted, stay within their buffers and keep errno, and that a line is written before abort(). */
#include "unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/message.h"

static void assert_text(struct hk_text *text, const char *expected)
{
    assert_int_equal(text->used, strlen(expected));
    assert_memory_equal(text->bytes, expected, text->used);
}

#define SAME_AS_PRINTF(...)                                                                                            \
    do {                                                                                                               \
        struct hk_text text_;                                                                                          \
        char expected_[256];                                                                                           \
        hk_text_init(&text_, -1);                                                                                      \
        hk_text_add(&text_, __VA_ARGS__);                                                                              \
        snprintf(expected_, sizeof expected_, __VA_ARGS__);                                                            \
        assert_text(&text_, expected_);                                                                                \
    } while (0)

UNIT_TEST(formats)
{
    SAME_AS_PRINTF("plain, %% and %c", 'x');
    SAME_AS_PRINTF("%s|%s", "", "a string");
    SAME_AS_PRINTF("%d %d %d %d", 0, -1, INT_MAX, INT_MIN);
    SAME_AS_PRINTF("%u %u", 0u, UINT_MAX);
    SAME_AS_PRINTF("%zu %zu %lu", (size_t)0, SIZE_MAX, UINT64_MAX);
    struct hk_text cut;
    const char *volatile half = "50%"; /* No letter follows the percent sign. */
    hk_text_init(&cut, -1);
    hk_text_add(&cut, half, 0);
    assert_text(&cut, "50");
    SAME_AS_PRINTF("%9lu|%2u|%*zu|%8x", UINT64_C(12345), 678u, 5, (size_t)9, 0xabcu);
    SAME_AS_PRINTF("%-5s|%-2s|%-3s|", "abc", "abc", "");
    SAME_AS_PRINTF("%24lu", UINT64_MAX);
    SAME_AS_PRINTF("%x %zx %x", 0xdeadbeefu, (size_t)0xfedcba9876543210, 0u);
    struct hk_text text;
    hk_text_init(&text, -1);
    const char *volatile nothing = NULL;
    hk_text_add(&text, "%s", nothing);
    assert_text(&text, "(null)");
}

static void assert_shown(const char *given, int length, const char *expected)
{
    struct hk_text text;
    hk_text_init(&text, -1);
    if (length < 0)
        hk_text_add(&text, "<%.10s>", given);
    else
        hk_text_add(&text, "<%.*s>", length, given);
    assert_text(&text, expected);
}

/* A text of the user is shown without control characters. It is valid UTF-8, and it is cut off if it is too long. */
UNIT_TEST(texts_of_others)
{
    assert_shown("", -1, "<>");
    assert_shown("a\"b\\c", -1, "<a\"b\\c>");
    assert_shown("\x1b[2J\n\x7f", -1, "<\\x1b[2J\\x0a\\x7f>");
    assert_shown("\xff\xc3\xa4\xe2\x82\xac", -1, "<\\xff\xc3\xa4\xe2\x82\xac>");
    assert_shown("\xc2\x9b\xc2\xa0\xc3", -1, "<\\xc2\\x9b\xc2\xa0\\xc3>");
    assert_shown("\xed\xa0\x80\xc0\x80", -1, "<\\xed\\xa0\\x80\\xc0\\x80>");
    assert_shown("0123456789", -1, "<0123456789>");
    assert_shown("0123456789a", -1, "<0123456789...>");
    assert_shown("012345678\xc3\xa4z", -1, "<012345678\xc3\xa4...>");
    assert_shown("name=value", 4, "<name>");
    assert_shown("name", 9, "<name>");
    static char long_name[302];
    char expected[310];
    memset(long_name, 'n', sizeof long_name - 1);
    snprintf(expected, sizeof expected, "<%.300s...>", long_name);
    assert_shown(long_name, 301, expected);
}

UNIT_TEST(keeps_what_fits)
{
    struct hk_text text;
    hk_text_init(&text, -1);
    for (int i = 0; i < 3000; i++)
        hk_text_add(&text, "%d,", i % 10);
    assert_int_equal(text.used, sizeof text.bytes);
    assert_memory_equal(text.bytes, "0,1,2,", 6);
}

UNIT_TEST(writes_when_full)
{
    struct hk_text text;
    fake_os_capture();
    hk_text_init(&text, 7);
    for (int i = 0; i < 3000; i++)
        hk_text_add(&text, "%d", i % 10);
    assert_true(fake_os.captured_bytes >= 2000);
    hk_text_flush(&text);
    assert_int_equal(fake_os.captured_bytes, 3000);
    for (size_t i = 0; i < 3000; i++)
        assert_int_equal(fake_os.captured[i], '0' + (char)(i % 10));
    assert_int_equal(text.used, 0);
}

static void failing_write(int fd, const void *bytes, size_t size)
{
    (void)fd;
    (void)bytes;
    (void)size;
    errno = EIO;
}

UNIT_TEST(one_line_and_errno)
{
    fake_os_capture();
    hk_message("%s has %d", "this", 3);
    assert_string_equal(fake_os.captured, "hakmem: this has 3\n");
    hk_os.write = failing_write;
    errno = EDOM;
    hk_message("unheard");
    assert_int_equal(errno, EDOM);
}

static void fatal(void *unused)
{
    (void)unused;
    hk_fatal("the end of %s, number %zu", "all", (size_t)42);
}

static void assertion(void *given)
{
    int *zero = given;
    hk_assert(*zero == 1);
}

UNIT_TEST(the_end)
{
    int zero = 0;
    unit_dies(fatal, NULL, "hakmem: the end of all, number 42\n");
    unit_dies(assertion, &zero, "hakmem: assertion failed: *zero == 1 (");
}

/* stderr is recognized by its device and inode, not by its number. */
UNIT_TEST(stderr_is_what_it_was)
{
    int saved = dup(STDERR_FILENO), other = open("/dev/zero", O_WRONLY);
    fake_os_capture();
    hk_stderr_begin();
    hk_message("here");
    assert_int_equal(dup2(other, STDERR_FILENO), STDERR_FILENO);
    errno = EDOM;
    hk_message("not there");
    assert_int_equal(errno, EDOM);
    hk_put(HK_STDERR_ASKED_FOR, "asked for\n", 10);
    hk_put(other, "a file\n", 7);
    close(STDERR_FILENO);
    hk_message("closed");
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    hk_message("back");
    assert_string_equal(fake_os.captured, "hakmem: here\nasked for\na file\nhakmem: back\n");
}

UNIT_TEST(stderr_that_never_was)
{
    int saved = dup(STDERR_FILENO);
    fake_os_capture();
    close(STDERR_FILENO);
    hk_stderr_begin();
    assert_false(hk_stderr_is_there());
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    hk_message("nobody's");
    assert_string_equal(fake_os.captured, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats),
        cmocka_unit_test(texts_of_others),
        cmocka_unit_test(keeps_what_fits),
        cmocka_unit_test(writes_when_full),
        cmocka_unit_test(one_line_and_errno),
        cmocka_unit_test(the_end),
        cmocka_unit_test(stderr_is_what_it_was),
        cmocka_unit_test(stderr_that_never_was),
    };
    return cmocka_run_group_tests_name("message", tests, NULL, NULL);
}
