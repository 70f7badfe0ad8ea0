/* Starts one program from a small parent, and prints its resource usage as JSON on the last line of standard output.
 *   launch [--warm MIB] [--fixed] [--syscalls | --trace MS [--own-time]] [--env NAME=VALUE]... -- PROGRAM ARG...
 *
 * launch exists because the peak RSS of a child begins with the size of the parent that forked it, and a Python interpreter is large.
 *   --env       sets a variable for the program only, because launch itself must not be preloaded
 *   --warm      starts a child that touches MIB of huge pages and ends before the program starts. In a virtual machine, the first touch of
 *               memory that was free for a long time is slow, and the first program would bear this cost for all programs.
 *   --fixed     disables address randomization, so that the addresses are the same in each run
 *   --syscalls  counts the system calls of all threads with ptrace, which is slow
 *   --trace     samples the resident memory every MS milliseconds, and prints pairs [ms, KiB], and how much is on huge pages at the peak
 *   --own-time  prints the program's processor time in the pairs, and not the elapsed time. So the same time stands for the same point of
 *               the program's work, even if the machine is busy. */
#include "bench_common.h"

#include <signal.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#define MAX_MOMENTS 512
#define NEW_PEAK 1.02 /* huge pages are counted again after the peak has grown by this factor; counting takes time */

typedef struct request {
    size_t warm_mib;
    bool fixed;
    bool count_syscalls;
    unsigned trace_ms;
    bool own_time;
    char **program;
} request;

typedef struct outcome {
    int status;
    double wall;
    struct rusage use;
    unsigned long long syscalls;
    struct {
        double ms;
        long kib;
    } moments[MAX_MOMENTS];
    int moment_count;
    long peak_kib;
    long huge_kib; /* part of peak_kib that is on huge pages */
} outcome;

__attribute__((noreturn)) static void die(const char *what)
{
    dprintf(STDERR_FILENO, "launch: %s: %s\n", what, strerror(errno));
    _exit(125);
}

static request parse(int argc, char **argv)
{
    request r = {0};
    int i = 1;
    for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--syscalls") == 0)
            r.count_syscalls = true;
        else if (strcmp(argv[i], "--fixed") == 0)
            r.fixed = true;
        else if (strcmp(argv[i], "--own-time") == 0)
            r.own_time = true;
        else if (strcmp(argv[i], "--warm") == 0 && i + 1 < argc)
            r.warm_mib = strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--trace") == 0 && i + 1 < argc)
            r.trace_ms = (unsigned)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--env") == 0 && i + 1 < argc)
            putenv(argv[++i]); /* precedes the fork, because memory that the child touches counts as the program's */
        else
            break;
    }
    if (i + 1 >= argc || strcmp(argv[i], "--") != 0) {
        dprintf(STDERR_FILENO, "usage: launch [--warm MIB] [--fixed] [--syscalls | --trace MS [--own-time]] "
                               "[--env NAME=VALUE]... -- PROGRAM ARG...\n");
        _exit(125);
    }
    r.program = argv + i + 1;
    return r;
}

/* Touches memory in a child. When the child has ended, its pages are free, and the host has backed them with memory. */
static void warm_memory(size_t mib)
{
    pid_t child = fork();
    if (child < 0)
        die("fork");
    if (child == 0) {
        /* Half of the free memory is the limit, because the machine must not begin to swap. */
        size_t half = (size_t)sysconf(_SC_AVPHYS_PAGES) / 2 * (size_t)sysconf(_SC_PAGESIZE);
        size_t bytes = mib > half >> 20 ? half : mib << 20;
        char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p != MAP_FAILED) {
            madvise(p, bytes, MADV_HUGEPAGE);
            bench_touch_pages(p, bytes);
        }
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

__attribute__((noreturn)) static void become(const request *r)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (r->fixed && personality(ADDR_NO_RANDOMIZE) < 0)
        die("personality");
    if (r->count_syscalls && ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        die("ptrace");
    execvp(r->program[0], r->program);
    die(r->program[0]);
}

/* Handles a stop of one thread. Counts the stop if the thread enters a system call. Returns the signal to deliver when the thread continues. */
static int handle_stop(pid_t thread, int status, outcome *out)
{
    int signal_number = WSTOPSIG(status);
    if (signal_number == (SIGTRAP | 0x80)) {
        struct __ptrace_syscall_info info;
        long n = ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info);
        out->syscalls += n > 0 && info.op == PTRACE_SYSCALL_INFO_ENTRY;
        return 0;
    }
    /* SIGTRAP reports exec and clone events, and a new thread begins with SIGSTOP. Neither is a signal of the program. */
    return signal_number == SIGTRAP || signal_number == SIGSTOP ? 0 : signal_number;
}

static void trace(pid_t child, outcome *out)
{
    int status;
    if (waitpid(child, &status, 0) != child)
        die("waitpid");
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
    if (WIFSTOPPED(status) && ptrace(PTRACE_SETOPTIONS, child, NULL, options) != 0)
        die("ptrace");
    pid_t thread = child;
    while (!(thread == child && !WIFSTOPPED(status))) {
        if (WIFSTOPPED(status))
            ptrace(PTRACE_SYSCALL, thread, NULL, (long)handle_stop(thread, status, out));
        struct rusage use;
        thread = wait4(-1, &status, __WALL, &use);
        if (thread < 0 && errno != EINTR)
            die("wait4");
        if (thread == child)
            out->use = use;
    }
    out->status = status;
}

static void add_moment(pid_t child, int statm, double seconds, outcome *out)
{
    char text[128] = {0}, path[64];
    long pages = 0;
    if (pread(statm, text, sizeof text - 1, 0) > 0)
        sscanf(text, "%*d %ld", &pages);
    long kib = pages * (sysconf(_SC_PAGESIZE) / 1024);
    out->moments[out->moment_count].ms = seconds * 1e3;
    out->moments[out->moment_count++].kib = kib;
    if ((double)kib > NEW_PEAK * (double)out->peak_kib) {
        out->peak_kib = kib;
        snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)child);
        out->huge_kib = (long)bench_proc_kib(path, "AnonHugePages"); /* 0 if the process has just ended */
    }
}

static void watch_memory(pid_t child, const request *r, double start, outcome *out)
{
    unsigned ms = r->trace_ms;
    clockid_t clock = CLOCK_MONOTONIC;
    if (r->own_time && clock_getcpuclockid(child, &clock) != 0)
        die("clock_getcpuclockid");
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/statm", (int)child);
    int statm = open(path, O_RDONLY | O_CLOEXEC);
    if (statm < 0)
        die(path);
    pid_t ended;
    while ((ended = wait4(child, &out->status, WNOHANG, &out->use)) == 0) {
        double now = bench_read_clock(clock); /* -1 if the program has just ended */
        if (now >= 0)
            add_moment(child, statm, r->own_time ? now : now - start, out);
        if (out->moment_count == MAX_MOMENTS) {
            for (int i = 0; i < MAX_MOMENTS / 2; i++)
                out->moments[i] = out->moments[2 * i];
            out->moment_count /= 2;
            ms *= 2;
        }
        bench_sleep(ms / 1e3);
    }
    if (ended != child)
        die("wait4");
    close(statm);
}

static outcome run(const request *r)
{
    outcome out = {0};
    double start = bench_now();
    pid_t child = fork();
    if (child < 0)
        die("fork");
    if (child == 0)
        become(r);
    if (r->count_syscalls)
        trace(child, &out);
    else if (r->trace_ms != 0)
        watch_memory(child, r, start, &out);
    else if (wait4(child, &out.status, 0, &out.use) != child)
        die("wait4");
    out.wall = bench_now() - start;
    return out;
}

static double seconds(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec * 1e-6; }

int main(int argc, char **argv)
{
    request r = parse(argc, argv);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (r.warm_mib != 0)
        warm_memory(r.warm_mib);
    outcome out = run(&r);
    printf("{\"status\": %d, \"signal\": %d, \"wall_s\": %.6f, \"user_s\": %.6f, \"system_s\": %.6f, "
           "\"max_rss_kib\": %ld, \"minor_faults\": %ld, \"major_faults\": %ld, \"switches\": %ld",
           WIFEXITED(out.status) ? WEXITSTATUS(out.status) : -1, WIFSIGNALED(out.status) ? WTERMSIG(out.status) : 0,
           out.wall, seconds(out.use.ru_utime), seconds(out.use.ru_stime), out.use.ru_maxrss, out.use.ru_minflt,
           out.use.ru_majflt, out.use.ru_nvcsw + out.use.ru_nivcsw);
    if (r.count_syscalls)
        printf(", \"syscalls\": %llu", out.syscalls);
    if (r.trace_ms != 0) {
        printf(", \"rss_trace\": [");
        for (int i = 0; i < out.moment_count; i++)
            printf("%s[%.1f, %ld]", i == 0 ? "" : ", ", out.moments[i].ms, out.moments[i].kib);
        printf("], \"huge_kib\": %ld", out.huge_kib);
    }
    printf("}\n");
    return 0;
}
