/* Usage: test_shut_in forbidden|bare|listed|own|apart
 * Tests programs that install a filter of system calls, or use namespaces. The filter allows the system calls of a program that allocates, and
 * ends the process at any other call. HAKMEM must not make other calls.
 *   forbidden  the program has threads, then forbids new ones; behind the filter its heap grows, is freed, and the program sleeps
 *   bare       the same as forbidden, but prctl() alone installs the filter, in a process that has the privilege for this
 *   listed     the filter allows only the calls that malloc and pthread_create need; the program creates threads, memory is purged, and malloc_trim
 *              reaches the cache of a sleeping thread
 *   own        a thread installs a filter for itself alone before its first malloc
 *   apart      a thread unshares its root (CLONE_FS), allocates, and enters a mount namespace; the system would refuse a shared root */
#include "blocks.h"
#include "support/tasks.h"
#include "support/watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77, HEAP = 96 << 20, BLOCK = 4000, BLOCKS = HEAP / BLOCK, REST_MS = 1500, LONGEST = 80 };

#define ALLOW SECCOMP_RET_ALLOW
#define KILL SECCOMP_RET_KILL_PROCESS

/* Installs a filter that answers the `listed` calls with `then`, and all other calls with `otherwise`. Returns false if the kernel refuses the
 * filter. */
static bool install(const int *listed, size_t count, unsigned then, unsigned otherwise, unsigned flags)
{
    struct sock_filter code[2 * LONGEST + 2];
    unsigned short length = 0;
    code[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < count; i++) {
        code[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)listed[i], 0, 1);
        code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, then);
    }
    code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, otherwise);
    struct sock_fprog program = {length, code};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) == 0;
}

static bool forbid_threads(unsigned flags)
{
    static const int makes[] = {SYS_clone, SYS_clone3};
    return install(makes, 2, KILL, ALLOW, flags);
}

/* Allows the system calls that malloc, pthread_create, the end of a thread, the end of the process, and the waits of this test make. */
static bool allow_little(void)
{
    static const int little[] = {
        SYS_mmap,          SYS_munmap, SYS_madvise,    SYS_mremap,          SYS_mprotect, SYS_futex,
        SYS_clock_gettime, SYS_clone,  SYS_clone3,     SYS_set_robust_list, SYS_rseq,     SYS_rt_sigprocmask,
        SYS_rt_sigaction,  SYS_exit,   SYS_exit_group, SYS_clock_nanosleep};
    return install(little, sizeof little / sizeof *little, ALLOW, KILL, SECCOMP_FILTER_FLAG_TSYNC);
}

static void *blocks[BLOCKS];

static void build(void)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK);
        memset(blocks[i], 1, BLOCK);
    }
}

static void give_all(void)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
}

static void rest(void) { nanosleep(&(struct timespec){REST_MS / 1000, REST_MS % 1000 * 1000000}, NULL); }

static pthread_barrier_t shut;

static void *wait_and_work(void *argument)
{
    pthread_barrier_wait(&shut);
    for (int i = 0; i < 100; i++) {
        free(malloc((size_t)i * 1000));
    }
    pthread_barrier_wait(&shut);
    return argument;
}

static void behind(bool (*shut_in)(void))
{
    pthread_t thread;
    pthread_barrier_init(&shut, NULL, 2);
    if (pthread_create(&thread, NULL, wait_and_work, NULL) != 0 || !shut_in()) {
        _exit(SKIPPED);
    }
    pthread_barrier_wait(&shut);
    build();
    give_all();
    rest();
    build();
    give_all();
    pthread_barrier_wait(&shut);
    pthread_join(thread, NULL);
}

static bool forbid(void)
{
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && forbid_threads(SECCOMP_FILTER_FLAG_TSYNC);
}

static void forbidden(void) { behind(forbid); }

static bool forbid_by_prctl(void)
{
    struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 1, 0),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 1), BPF_STMT(BPF_RET | BPF_K, KILL),
                                 BPF_STMT(BPF_RET | BPF_K, ALLOW)};
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void bare(void)
{
    if (geteuid() != 0) {
        _exit(SKIPPED);
    }
    behind(forbid_by_prctl);
}

static void *sleep_then_end(void *argument)
{
    free(malloc(BLOCK));
    pthread_barrier_wait(&shut);
    rest();
    return argument;
}

static void listed(void)
{
    pthread_t thread;
    build();
    pthread_barrier_init(&shut, NULL, 2);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || !allow_little() ||
        pthread_create(&thread, NULL, sleep_then_end, NULL) != 0) {
        _exit(SKIPPED);
    }
    pthread_barrier_wait(&shut);
    give_all();
    pthread_join(thread, NULL);
    if (pthread_create(&thread, NULL, sleep_then_end, NULL) == 0) {
        pthread_barrier_wait(&shut);
        if (getenv("TEST_ALLOCATOR") != NULL) /* the C library would call brk */
            malloc_trim(0);
        pthread_join(thread, NULL);
    }
}

static void *shut_in_alone(void *argument)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || !forbid_threads(0)) {
        _exit(SKIPPED);
    }
    build();
    give_all();
    return argument;
}

static void own(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, shut_in_alone, NULL) != 0) {
        _exit(SKIPPED);
    }
    pthread_join(thread, NULL);
    rest();
}

static void *part_and_enter(void *argument)
{
    int mounts = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (mounts < 0 || unshare(CLONE_FS) != 0 || setns(mounts, CLONE_NEWNS) != 0) {
        _exit(SKIPPED);
    }
    build();
    give_all();
    if (setns(mounts, CLONE_NEWNS) != 0) {
        _exit(1);
    }
    return argument;
}

static void apart(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, part_and_enter, NULL) != 0) {
        _exit(SKIPPED);
    }
    pthread_join(thread, NULL);
}

static size_t resident_kib(pid_t pid)
{
    char path[64], line[128];
    size_t kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        sscanf(line, "VmRSS: %zu", &kib);
    }
    if (file) {
        fclose(file);
    }
    return kib;
}

/* Waits for the end of the process. Returns the lowest resident memory, in KiB, that was measured after the highest. */
static size_t least_of(pid_t pid, int *status)
{
    size_t most = 0, least = 0;
    while (waitpid(pid, status, WNOHANG) == 0) {
        size_t now = resident_kib(pid);
        if (now >= most) {
            most = least = now;
        }
        least = now > 0 && now < least ? now : least;
        usleep(10000);
    }
    return least;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*test)(void);
        bool goes_back;
    } tests[] = {{"forbidden", forbidden, false},
                 {"bare", bare, false},
                 {"listed", listed, true},
                 {"own", own, false},
                 {"apart", apart, false}};
    watchdog_start(60, "shut_in");
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (argc < 2 || strcmp(argv[1], tests[i].name) != 0) {
            continue;
        }
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            tests[i].test();
            _exit(0);
        }
        int status = -1;
        size_t least = least_of(child, &status);
        if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
            printf("%s: no filter to be had: skipped\n", argv[1]);
            return SKIPPED;
        }
        CHECK(status == 0, "%s: wait status 0x%x%s", argv[1], (unsigned)status, WIFSIGNALED(status) ? ", killed" : "");
        if (tests[i].goes_back && check_on_hakmem()) {
            CHECK(least < (HEAP >> 10) / 4, "%zu KiB at the least", least);
        }
    }
    return check_report("shut_in");
}
