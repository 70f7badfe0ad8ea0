/* Usage: test_prefault knob|prctl|refused|threads|fork
 * Tests that a heap that grows without huge pages takes at most one page fault for 16 pages, and hardly more memory than it is asked for (S15).
 *   knob     the option huge_pages_from is 0 (set by the caller)
 *   prctl    the process forbids huge pages
 *   refused  the program installs a filter that refuses MADV_POPULATE_WRITE, so the heap takes a page fault for each page
 *   threads  four threads grow the heap at the same time
 *   fork     a child grows the heap of its parent, which has populated slices that no block has used
 * getrusage counts a populated page as a fault. The test counts the exceptions of the processor. It is skipped if it may not count them, or if the
 * kernel is older than 5.14. */
#include "support/check.h"
#include "support/procinfo.h"
#include "support/watchdog.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCK = 112, COUNT = 1200000, THREADS = 4, POPULATE_WRITE = 23, CANNOT_RUN = 77 };
static int counter;

static bool refuse_populate(void)
{
    struct sock_filter program[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr)},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 3, SYS_madvise},
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, args[2])},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, POPULATE_WRITE},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EINVAL},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
    };
    struct sock_fprog filter = {sizeof program / sizeof program[0], program};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

static bool kernel_can_populate(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return madvise(page, 4096, POPULATE_WRITE) == 0;
}

static int open_counter(void)
{
    struct perf_event_attr what = {.type = PERF_TYPE_SOFTWARE,
                                   .size = sizeof what,
                                   .config = PERF_COUNT_SW_PAGE_FAULTS,
                                   .exclude_kernel = 1,
                                   .exclude_hv = 1,
                                   .inherit = 1};
    return (int)syscall(SYS_perf_event_open, &what, 0, -1, -1, 0);
}

static uint64_t faults(void)
{
    uint64_t count = 0;
    return read(counter, &count, sizeof count) == sizeof count ? count : 0;
}

/* Allocates and writes all blocks, and chains them. */
static void *grow(void *most)
{
    void **last = NULL;
    for (size_t i = 0; i < (size_t)(uintptr_t)most; i++) {
        void **block = malloc(BLOCK);
        memset(block, 1, BLOCK);
        *block = last;
        last = block;
    }
    for (void **block = last; block != NULL; block = *block)
        CHECK(((unsigned char *)block)[BLOCK - 1] == 1, "a block at %p changed", (void *)block);
    check_thread_done();
    return last;
}

static void grow_with(unsigned threads)
{
    pthread_t thread[THREADS];
    for (unsigned i = 1; i < threads; i++)
        CHECK(pthread_create(&thread[i], NULL, grow, (void *)(uintptr_t)(COUNT / threads)) == 0, "thread %u", i);
    grow((void *)(uintptr_t)(COUNT / threads));
    for (unsigned i = 1; i < threads; i++)
        pthread_join(thread[i], NULL);
}

static void expect_few_faults(const char *who, unsigned threads)
{
    bool refused = strcmp(who, "refused") == 0;
    size_t pages = (size_t)COUNT * BLOCK / 4096, before_kib = procinfo_rss_kib();
    uint64_t before = faults();
    grow_with(threads);
    uint64_t taken = faults() - before;
    size_t kib = procinfo_rss_kib() - before_kib;
    printf("%s: %zu pages, %llu faults, %zu KiB\n", who, pages, (unsigned long long)taken, kib);
    CHECK(refused ? taken >= pages && taken * 16 <= pages * 17 : taken * 16 <= pages, "%s: %llu faults for %zu pages",
          who, (unsigned long long)taken, pages);
    CHECK(kib * 20 <= pages * 4 * 21, "%s: %zu KiB for %zu pages", who, kib, pages);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "prctl";
    watchdog_start(120, "a heap without huge pages");
    bool ready = strcmp(mode, "knob") == 0 || procinfo_forbid_huge_pages();
    counter = open_counter();
    if (!ready || counter < 0 || !kernel_can_populate() || (strcmp(mode, "refused") == 0 && !refuse_populate())) {
        printf("cannot count page faults, or populate pages, here: errno %d\n", errno);
        return CANNOT_RUN;
    }
    expect_few_faults(mode, strcmp(mode, "threads") == 0 ? THREADS : 1);
    if (strcmp(mode, "fork") == 0) {
        pid_t child = fork();
        if (child == 0) {
            counter = open_counter();
            expect_few_faults("the child", 1);
            _exit(check_failures() != 0);
        }
        int status = -1;
        CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended with %d", status);
    }
    return check_report("prefault");
}
