/* Usage: test_start_faults LIBRARY MOST PROGRAM [ARGUMENT...]
 * Tests that a process with HAKMEM takes at most MOST page faults more than without it. It compares the medians of alternating runs.
 * HAKMEM must not be preloaded into this test itself. */
#include "support/check.h"
#include "support/core_page.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77, RUNS = 31 };

/* Returns the page faults of the program, or -1 if it cannot run. The program is started with vfork because the copied pages of a forked child
 * would count too. */
static long faults_of(char **program, char *preload)
{
    char *environment[] = {"PATH=/usr/bin:/bin", preload, NULL};
    int status, nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct rusage use;
    pid_t child = vfork();
    if (child == 0) {
        dup2(nothing, STDOUT_FILENO);
        execve(program[0], program, environment);
        _exit(SKIPPED);
    }
    bool ended = wait4(child, &status, 0, &use) == child && WIFEXITED(status) && WEXITSTATUS(status) != SKIPPED;
    close(nothing);
    return ended ? use.ru_minflt : -1;
}

static int by_size(const void *left, const void *right)
{
    long a = *(const long *)left, b = *(const long *)right;
    return (a > b) - (a < b);
}

static long median(long *runs)
{
    qsort(runs, RUNS, sizeof *runs, by_size);
    return runs[RUNS / 2];
}

int main(int argc, char **argv)
{
    static char preload[4096];
    long without[RUNS], with[RUNS];
    if (argc < 4) {
        return 2;
    }
    if (access(argv[3], X_OK) != 0 || core_page() != 4096) {
        return SKIPPED;
    }
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", argv[1]);
    for (unsigned i = 0; i < RUNS; i++) {
        without[i] = faults_of(argv + 3, NULL);
        with[i] = faults_of(argv + 3, preload);
        CHECK(without[i] > 0 && with[i] > 0, "%s does not run", argv[3]);
    }
    long most = atol(argv[2]), fewest = median(without), more = median(with) - fewest;
    printf("%s: %ld page faults, %ld more with HAKMEM\n", argv[3], fewest, more);
    CHECK(more <= most, "%ld page faults more, not %ld at most", more, most);
    CHECK(more > 0, "the library was not loaded");
    return check_report("start_faults");
}
