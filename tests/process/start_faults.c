/* Usage: test_start_faults LIBRARY MOST PROGRAM [ARGUMENT...]
 * Tests that a process with HAKMEM takes at most MOST page faults more than without it. It compares the medians of alternating runs.
 * How many pages of the library's file one fault maps depends on how the page cache holds the file. With the same file in two folders, six faults more
 * and none were seen. Therefore the test tries copies of the library if the library itself takes too many faults.
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

enum { SKIPPED = 77, RUNS = 31, COPIES = 4 };

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

/* Returns how many page faults more the program takes with the library than without it. */
static long faults_more(char **program, const char *library)
{
    static char preload[4096];
    long without[RUNS], with[RUNS];
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", library);
    for (unsigned i = 0; i < RUNS; i++) {
        without[i] = faults_of(program, NULL);
        with[i] = faults_of(program, preload);
        CHECK(without[i] > 0 && with[i] > 0, "%s does not run", program[0]);
    }
    long fewest = median(without), more = median(with) - fewest;
    printf("%s: %ld page faults, %ld more with HAKMEM\n", program[0], fewest, more);
    return more;
}

static bool copy_file(const char *from, const char *to)
{
    static char bytes[1 << 16];
    int source = open(from, O_RDONLY | O_CLOEXEC), target = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    ssize_t n;
    bool good = source >= 0 && target >= 0;
    while (good && (n = read(source, bytes, sizeof bytes)) > 0)
        good = write(target, bytes, (size_t)n) == n;
    close(source);
    return close(target) == 0 && good;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        return 2;
    }
    if (access(argv[3], X_OK) != 0 || core_page() != 4096) {
        return SKIPPED;
    }
    long most = atol(argv[2]), more = faults_more(argv + 3, argv[1]);
    for (unsigned i = 0; i < COPIES && more > most; i++) {
        char copy[64];
        snprintf(copy, sizeof copy, "/tmp/start_faults_%d_%u.so", (int)getpid(), i);
        CHECK(copy_file(argv[1], copy), "cannot copy the library to %s", copy);
        more = faults_more(argv + 3, copy);
        unlink(copy);
    }
    CHECK(more <= most, "%ld page faults more, not %ld at most", more, most);
    CHECK(more > 0, "the library was not loaded");
    return check_report("start_faults");
}
