/* Usage: test_seccomp refuse|kill [steps], test_seccomp inherit
 * Tests the heap in a program that installs a filter of system calls after its start, or that inherits a filter.
 *   refuse  allows only mmap, munmap, madvise and futex (and write and exit_group for the test itself); all other calls return ENOSYS
 *   kill    also allows the other calls that real sandboxes allow; any call that is not allowed ends the process
 *   inherit executes the program again behind a filter that ends the process at mincore, as for services of systemd with @system-service */
#include "support/check.h"
#include "support/pattern.h"
#include "support/rng.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SKIPPED = 77, BLOCKS = 5000, STEPS = 80000, FILTER_ROOM = 64 };

static const int needed[] = {SYS_mmap, SYS_munmap, SYS_madvise, SYS_futex, SYS_write, SYS_exit_group};
static const int sandbox[] = {SYS_mprotect,     SYS_mremap, SYS_exit,          SYS_rt_sigaction, SYS_rt_sigprocmask,
                              SYS_rt_sigreturn, SYS_getpid, SYS_clock_gettime, SYS_gettimeofday, SYS_brk,
                              SYS_read,         SYS_close,  SYS_fstat,         SYS_newfstatat};

static struct sock_filter program[FILTER_ROOM];
static unsigned short length;

static void add(unsigned short code, unsigned char if_true, unsigned char if_false, unsigned k)
{
    program[length++] = (struct sock_filter){code, if_true, if_false, k};
}

static void allow(const int *calls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        add(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (unsigned)calls[i]);
        add(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
    }
}

static bool install(bool kill)
{
    add(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
    allow(needed, sizeof needed / sizeof needed[0]);
    if (kill) {
        allow(sandbox, sizeof sandbox / sizeof sandbox[0]);
    }
    add(BPF_RET | BPF_K, 0, 0, kill ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | ENOSYS);
    struct sock_fprog filter = {length, program};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

static size_t draw_size(struct rng *rng)
{
    uint32_t draw = rng_below(rng, 1000);
    return 1 + (draw < 3 ? rng_below(rng, 6u << 20) : draw < 40 ? rng_below(rng, 300000) : rng_below(rng, 3000));
}

/* calloc of a freed block must not ask which pages are resident, because the filter forbids it. */
static void use_zeroed(void)
{
    static const size_t sizes[] = {600000, 2000000, 9000000, 50000000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *volatile block = malloc(sizes[i]);
        CHECK(block != NULL, "%zu bytes", sizes[i]);
        memset(block, 1, sizes[i]);
        free(block);
        block = calloc(1, sizes[i]);
        CHECK(block != NULL, "%zu bytes", sizes[i]);
        for (size_t at = 0; at < sizes[i]; at += 64)
            CHECK(block[at] == 0, "byte %zu of %zu", at, sizes[i]);
        free(block);
    }
}

static void use_heap(unsigned long steps)
{
    static void *block[BLOCKS];
    static size_t size[BLOCKS];
    struct rng rng = rng_seeded(9);
    for (unsigned long i = 0; i < steps && check_failures() == 0; i++) {
        uint32_t slot = rng_below(&rng, BLOCKS);
        if (!block[slot]) {
            size[slot] = draw_size(&rng);
            block[slot] = malloc(size[slot]);
            CHECK(block[slot] != NULL, "%zu bytes: errno %d", size[slot], errno);
            if (block[slot]) {
                pattern_fill(block[slot], size[slot], slot);
            }
        } else if (i % 5 == 0) {
            size_t next = draw_size(&rng);
            void *p = realloc(block[slot], next);
            CHECK(p && pattern_holds(p, next < size[slot] ? next : size[slot], slot), "realloc %zu -> %zu", size[slot],
                  next);
            if (!p) {
                continue;
            }
            block[slot] = p;
            size[slot] = next;
            pattern_fill(p, next, slot);
        } else {
            CHECK(pattern_holds(block[slot], size[slot], slot), "%zu bytes", size[slot]);
            free(block[slot]);
            block[slot] = NULL;
        }
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        free(block[i]);
    }
    malloc_trim(0);
    errno = 0;
    CHECK(malloc((size_t)PTRDIFF_MAX) == NULL && errno == ENOMEM, "errno %d", errno);
}

/* Installs a filter that kills the process at mincore only, as a service manager does before it starts a program. Uses a bare system call, because
 * HAKMEM sees the filters that the C library's prctl installs. */
static bool install_unseen(void)
{
    static struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mincore, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof steps / sizeof steps[0], steps};
    return syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "inherit") == 0) {
        if (!install_unseen())
            return SKIPPED;
        execl("/proc/self/exe", argv[0], "inherited", NULL);
        return 1;
    }
    if (argc > 1 && strcmp(argv[1], "inherited") == 0) {
        use_zeroed();
        return check_report("seccomp, inherited");
    }
    bool kill = argc > 1 && strcmp(argv[1], "kill") == 0;
    unsigned long steps = argc > 2 ? strtoul(argv[2], NULL, 10) : STEPS;
    free(malloc(1)); /* The heap starts before the filter is installed, as in a real program. */
    if (!install(kill)) {
        return errno == EINVAL || errno == ENOSYS || errno == EPERM ? SKIPPED : 1;
    }
    use_heap(steps);
    use_zeroed();
    return check_report(kill ? "seccomp, kill" : "seccomp, refuse");
}
