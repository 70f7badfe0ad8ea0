/* Usage: test_start_files LIBRARY small|grown|option|shut_in
 * Tests which files of /sys and /proc HAKMEM opens in a process. The test sees them by ptrace, from outside.
 *   small    opens no file while the process's heap is small, because most heaps stay small and reading the files costs time
 *   grown    opens the files when the heap has grown
 *   option   opens the files at the start if an option needs their contents
 *   shut_in  opens the files before the program enters a sandbox, because the sandbox may end a program that opens a file
 * The traced program is this program, started as test_start_files - MODE. */
#include "support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77, BLOCK = 1000, SMALL = 2 << 20, GROWN = 16 << 20, MARK = 4711 };

/* These are constants of Linux 5.3 that some headers lack. */
enum { GET_SYSCALL_INFO = 0x420e, ENTRY = 1 };
struct stop {
    uint8_t kind, pad[3];
    uint32_t machine;
    uint64_t code, stack, number, arguments[6];
};

static void fill(size_t bytes)
{
    for (size_t done = 0; done < bytes; done += BLOCK) {
        char *block = malloc(BLOCK);
        CHECK(block != NULL, "no memory");
        memset(block, 1, BLOCK);
    }
}

/* Runs in the traced program. close(MARK) fails, and shows the parent how far the program is. */
static int program(const char *mode)
{
    fill(SMALL);
    if (strcmp(mode, "shut_in") == 0) {
        CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "errno %d", errno);
    }
    syscall(SYS_close, MARK);
    if (strcmp(mode, "grown") == 0 || strcmp(mode, "shut_in") == 0) {
        fill(GROWN);
    }
    return check_failures() != 0;
}

static struct {
    unsigned before, after; /* number of files opened before and after close(MARK) */
    bool marked;
} opened;

static void look(pid_t child, const struct stop *stop)
{
    char path[256] = "";
    struct iovec here = {path, sizeof path - 1}, there = {(void *)(uintptr_t)stop->arguments[1], sizeof path - 1};
    opened.marked |= stop->number == SYS_close && stop->arguments[0] == MARK;
    if (stop->number != SYS_openat || process_vm_readv(child, &here, 1, &there, 1, 0) <= 0 ||
        (strncmp(path, "/sys/", 5) != 0 && strncmp(path, "/proc/", 6) != 0)) {
        return;
    }
    printf("%s %s\n", opened.marked ? "after" : "before", path);
    *(opened.marked ? &opened.after : &opened.before) += 1;
}

static int follow(pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        struct stop stop = {0};
        int signal = WSTOPSIG(status) & 0x7f;
        if (WSTOPSIG(status) == (SIGTRAP | 0x80) &&
            ptrace((enum __ptrace_request)GET_SYSCALL_INFO, child, sizeof stop, &stop) > 0 && stop.kind == ENTRY) {
            look(child, &stop);
        }
        ptrace(PTRACE_SYSCALL, child, NULL, signal == SIGTRAP || signal == SIGSTOP ? 0 : signal);
    }
    return status;
}

static void begin(char **arguments, const char *library)
{
    static char preload[4096];
    char *environment[] = {preload, strcmp(arguments[2], "option") == 0 ? "HAKMEM_GOAL=50%" : "TEST_NOTHING=1", NULL};
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", library);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0 || raise(SIGSTOP) != 0) {
        _exit(SKIPPED);
    }
    execve("/proc/self/exe", arguments, environment);
    _exit(1);
}

static bool is(const char *mode, const char *one, const char *other)
{
    return strcmp(mode, one) == 0 || strcmp(mode, other) == 0;
}

static int watch(pid_t child, const char *mode)
{
    int status;
    CHECK(waitpid(child, &status, 0) == child, "errno %d", errno);
    if (!WIFSTOPPED(status) || ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) != 0) {
        return SKIPPED;
    }
    ptrace(PTRACE_SYSCALL, child, NULL, 0);
    status = follow(child);
    if (WIFEXITED(status) && !opened.marked) {
        return SKIPPED; /* Without numbers of calls, no call was recognized. */
    }
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
    CHECK((opened.before == 0) == is(mode, "small", "grown"), "%u files before the mark", opened.before);
    CHECK((opened.after == 0) != is(mode, "grown", "grown"), "%u files after the mark", opened.after);
    return check_report("start_files");
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        return 2;
    }
    if (strcmp(argv[1], "-") == 0) {
        return program(argv[2]);
    }
    char *arguments[] = {argv[0], "-", argv[2], NULL};
    pid_t child = fork();
    if (child == 0) {
        begin(arguments, argv[1]);
    }
    return watch(child, argv[2]);
}
