#include "check.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PRINTED_AT_MOST = 20, LINE_MAX_BYTES = 512 };

_Thread_local uint64_t check_local;

static _Atomic uint64_t x_total;
static _Atomic uint64_t x_failures;

/* Prints with one write and no other system call. dprintf would call lseek first, and would print nothing if a sandbox refuses that call. */
__attribute__((format(printf, 2, 3))) static void say(int fd, const char *format, ...)
{
    char line[2 * LINE_MAX_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length > 0) {
        size_t bytes = (size_t)length < sizeof line ? (size_t)length : sizeof line - 1;
        ssize_t ignored = write(fd, line, bytes);
        (void)ignored;
    }
}

void check_failed(const char *file, int line, const char *what, const char *format, ...)
{
    if (atomic_fetch_add(&x_failures, 1) >= PRINTED_AT_MOST) {
        return;
    }
    char text[LINE_MAX_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const char *slash = strrchr(file, '/');
    say(STDERR_FILENO, "%s:%d: failed: %s: %s\n", slash ? slash + 1 : file, line, what, text);
}

void check_thread_done(void)
{
    atomic_fetch_add(&x_total, check_local);
    check_local = 0;
}

uint64_t check_total(void) { return atomic_load(&x_total) + check_local; }

uint64_t check_failures(void) { return atomic_load(&x_failures); }

#ifdef TEST_STATIC
extern const char *hak_version(void) __attribute__((weak));
bool check_on_hakmem(void) { return hak_version != NULL; }
#else
bool check_on_hakmem(void) { return dlsym(RTLD_DEFAULT, "hak_version") != NULL; }
#endif

int check_report(const char *name)
{
    const char *wanted = getenv("TEST_ALLOCATOR");
    if (wanted && strcmp(wanted, "hakmem") == 0) {
        CHECK(check_on_hakmem(), "this run was to be on HAKMEM and is not");
    }
    check_thread_done();
    say(STDOUT_FILENO, "%s: %" PRIu64 " checks, %" PRIu64 " failed, allocator %s\n", name, check_total(),
        check_failures(), check_on_hakmem() ? "hakmem" : "system");
    return check_failures() ? EXIT_FAILURE : EXIT_SUCCESS;
}
