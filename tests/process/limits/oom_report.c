/* Usage: test_oom_report
 * Tests the report that HAKMEM writes when it refuses memory (S30). The first refusal of a process prints one report to stderr, and later refusals
 * print nothing. The report names the request, the limits, the memory of the process, and HAKMEM's counters. A request for more than PTRDIFF_MAX
 * is a program error, not lack of memory, and it prints at most one such line. */
#include "rlimit.h"

#include "support/check.h"
#include "support/watchdog.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static const char prefix[] = "hakmem: out of memory:";

static size_t lines_with(const char *text, const char *start)
{
    size_t count = 0;
    for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        count += strncmp(line, start, strlen(start)) == 0;
    }
    return count;
}

/* Returns the number that follows `name` in the report, or 0 if there is none. */
static size_t told(const char *report, const char *name)
{
    const char *at = strstr(report, name);
    return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static void check_what_it_says(const char *report, size_t limit_bytes)
{
    size_t mapped = told(report, "mapped ");
    CHECK(strstr(report, "refused (ENOMEM)"), "no errno: %s", report);
    CHECK(told(report, prefix) >= 1000, "asked for %zu bytes", told(report, prefix));
    CHECK(told(report, "address limit ") == limit_bytes, "address limit %zu", told(report, "address limit "));
    CHECK(strstr(report, "data limit none, "), "no data limit: %s", report);
    CHECK(mapped > limit_bytes / 2 && mapped <= told(report, "virtual "), "mapped %zu", mapped);
    CHECK(told(report, "virtual ") <= limit_bytes, "virtual %zu", told(report, "virtual "));
    CHECK(told(report, "resident ") > 0 && told(report, "resident ") <= limit_bytes, "resident %zu",
          told(report, "resident "));
    CHECK(told(report, "(live ") > 0 && told(report, "(live ") < mapped, "live %zu", told(report, "(live "));
    CHECK(told(report, ", os_refusals ") > 0 && told(report, ", out_of_memory ") == 1, "counters: %s", report);
}

static int run_out_of_memory(void)
{
    for (int cycle = 0; cycle < 5; cycle++) {
        struct chain chain = {NULL, 0};
        if (!chain_fill(&chain, (size_t)1000 << (4 * cycle)) || (cycle < 4 && chain.count == 0)) {
            return 1;
        }
        chain_free(&chain);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "under") == 0) {
        return run_out_of_memory();
    }
    static char errors[65536];
    size_t expected = check_on_hakmem() ? 1 : 0;
    watchdog_start(60, "oom report");
    for (size_t limit = 32; limit <= 128; limit *= 2) {
        char *arguments[] = {argv[0], "under", NULL};
        int status = rlimit_run_self(arguments, limit, errors, sizeof errors);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "limit %zu MiB: wait status 0x%x", limit,
              (unsigned)status);
        CHECK(lines_with(errors, prefix) == expected, "limit %zu MiB: %zu reports:\n%s", limit,
              lines_with(errors, prefix), errors);
        if (expected > 0) {
            check_what_it_says(errors, limit << 20);
        }
        if (limit == 32) {
            printf("%s", errors);
        }
    }
    char *arguments[] = {argv[0], "under", NULL};
    setenv("HAKMEM_LIMIT", "32m", 1);
    rlimit_run_self(arguments, 4096, errors, sizeof errors);
    CHECK(expected == 0 || strstr(errors, " bytes refused (ENOMEM) by HAKMEM_LIMIT=33554432; "),
          "the limit is not named: %s", errors);
    CHECK(told(errors, ", os_refusals ") == 0, "the system refused: %s", errors);
    setenv("HAKMEM_OOM_REPORT", "0", 1);
    rlimit_run_self(arguments, 32, errors, sizeof errors);
    CHECK(errors[0] == '\0', "HAKMEM_OOM_REPORT=0 and yet:\n%s", errors);
    fflush(stdout);
    return check_report("oom report");
}
