/* Usage: test_parasite
 * Tests a tracer that stops a process, makes one of its threads call malloc and free, and lets it continue. A debugger does this for
 * "call malloc(10)", and so do checkpointing tools. The child is a copy of this program, so that functions have the same addresses.
 * The stopped threads compute or sleep, so they are never inside malloc. Another thread allocates all the time. */
#include "blocks.h"
#include "support/watchdog.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77, INJECTED = 120, HELD = 300, RED_ZONE = 128 };

#if defined(__x86_64__)

/* The tracer and the child share this memory. */
struct shared {
    atomic_int x_ready, x_stop, x_checks_failed;
    _Atomic pid_t x_thread[2]; /* [0] computes, [1] sleeps */
    void *_Atomic x_block[INJECTED];
};
static struct shared *shared;

__attribute__((naked, used)) static void trap_here(void) { __asm__("int3\n\tnop"); }

static void *computes(void *unused)
{
    shared->x_thread[0] = (pid_t)syscall(SYS_gettid);
    shared->x_ready++;
    for (volatile unsigned long i = 0; !shared->x_stop; i++) {}
    return unused;
}

static void *sleeps(void *unused)
{
    shared->x_thread[1] = (pid_t)syscall(SYS_gettid);
    shared->x_ready++;
    while (!shared->x_stop) {
        usleep(3000);
    }
    return unused;
}

static void *allocates(void *unused)
{
    static void *block[HELD];
    shared->x_ready++;
    while (!shared->x_stop) {
        blocks_allocate(block, HELD);
        blocks_free(block, HELD);
    }
    check_thread_done();
    return unused;
}

static size_t injected_size(int i) { return i % 10 == 9 ? 2000000 : i % 5 == 4 ? 50000 : 16 + (size_t)i * 20; }

/* Runs the child's threads. At the end, frees those blocks of the injected calls that are still in use. */
static int child_runs(void)
{
    void *(*work[])(void *) = {computes, sleeps, allocates};
    pthread_t thread[3];
    for (size_t t = 0; t < 3; t++) {
        CHECK(pthread_create(&thread[t], NULL, work[t], NULL) == 0, "thread");
    }
    for (size_t t = 0; t < 3; t++) {
        pthread_join(thread[t], NULL);
    }
    for (int i = 0; i < INJECTED; i += 2) {
        CHECK(pattern_holds(shared->x_block[i], injected_size(i), (uint64_t)i), "block %d", i);
        free(shared->x_block[i]);
    }
    return check_failures() != 0;
}

static void stopped_by(pid_t thread, int signal)
{
    int status = -1;
    CHECK(waitpid(thread, &status, __WALL) == thread, "errno %d", errno);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == signal, "wait status 0x%x", (unsigned)status);
}

/* Makes a stopped thread call function(argument), and returns the result. */
static uintptr_t call_in(pid_t thread, uintptr_t function, uintptr_t argument)
{
    struct user_regs_struct before, now;
    CHECK(ptrace(PTRACE_GETREGS, thread, NULL, &before) == 0, "errno %d", errno);
    now = before;
    now.rsp = ((before.rsp - RED_ZONE) & ~15ul) - 8;
    now.rip = function;
    now.rdi = argument;
    now.rax = 0;
    now.orig_rax = (unsigned long)-1; /* keeps the kernel from restarting a system call */
    CHECK(ptrace(PTRACE_POKEDATA, thread, (void *)now.rsp, (void *)trap_here) == 0, "errno %d", errno);
    CHECK(ptrace(PTRACE_SETREGS, thread, NULL, &now) == 0, "errno %d", errno);
    CHECK(ptrace(PTRACE_CONT, thread, NULL, NULL) == 0, "errno %d", errno);
    stopped_by(thread, SIGTRAP);
    CHECK(ptrace(PTRACE_GETREGS, thread, NULL, &now) == 0, "errno %d", errno);
    CHECK(now.rip == (uintptr_t)trap_here + 1, "it stopped at 0x%llx", now.rip);
    CHECK(ptrace(PTRACE_SETREGS, thread, NULL, &before) == 0, "errno %d", errno);
    return now.rax;
}

static void write_into(pid_t child, uintptr_t at, size_t size, uint64_t seed)
{
    static char bytes[4 << 20];
    struct iovec here = {bytes, size}, there = {(void *)at, size};
    pattern_fill(bytes, size, seed);
    CHECK(process_vm_writev(child, &here, 1, &there, 1, 0) == (ssize_t)size, "errno %d", errno);
}

static void inject(pid_t child)
{
    for (int i = 0; i < INJECTED; i++) {
        pid_t thread = shared->x_thread[i / 2 % 2];
        CHECK(ptrace(PTRACE_ATTACH, thread, NULL, NULL) == 0, "errno %d", errno);
        stopped_by(thread, SIGSTOP);
        uintptr_t block = call_in(thread, (uintptr_t)malloc, injected_size(i));
        CHECK(block != 0 && block % 16 == 0, "injected malloc gave 0x%lx", (unsigned long)block);
        write_into(child, block, injected_size(i), (uint64_t)i);
        shared->x_block[i] = (void *)block;
        if (i % 2) { /* Half of the blocks are freed by an injected free. */
            call_in(thread, (uintptr_t)free, block);
        }
        CHECK(ptrace(PTRACE_DETACH, thread, NULL, NULL) == 0, "errno %d", errno);
    }
}

int main(void)
{
    watchdog_start(60, "parasite");
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED, "errno %d", errno);
    pid_t child = fork();
    if (child == 0) {
        watchdog_start(60, "parasite's host");
        exit(child_runs());
    }
    while (shared->x_ready < 3) {
        usleep(1000);
    }
    if (ptrace(PTRACE_ATTACH, child, NULL, NULL) != 0) {
        printf("parasite: ptrace is forbidden here (errno %d): skipped\n", errno);
        shared->x_stop = 1;
        return SKIPPED;
    }
    stopped_by(child, SIGSTOP);
    CHECK(ptrace(PTRACE_DETACH, child, NULL, NULL) == 0, "errno %d", errno);
    inject(child);
    shared->x_stop = 1;
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the host ended with 0x%x", (unsigned)status);
    return check_report("parasite");
}

#else
int main(void)
{
    printf("parasite: written for x86-64 only: skipped\n");
    return SKIPPED;
}
#endif
