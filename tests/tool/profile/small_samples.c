/* Usage: test_small_samples DEEPEST [first]
 * Takes samples on small stacks: in coroutines, in a signal handler, and in the smallest thread. It also takes samples while another thread holds the
 * loader's lock, and in children that are forked during that time. The environment decides what a sample is: HAKMEM_HEAP_SAMPLE (samples in the
 * profile), HAKMEM_GUARD_SAMPLE (blocks at guard pages), or HAKMEM_TRACE_REMOTE (stacks of remote frees). DEEPEST is the largest stack in bytes that
 * malloc or free may use in total. A sample must not load a module. */
#include "support/check.h"
#include "support/watchdog.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum {
    PAGE = 65536,
    PAINTED = 4 * PAGE,
    PAINT = 0xa5,
    BLOCKS = 600,
    SIZE = 100,
    LARGE = 3 << 20,
    COROUTINES = 20,
    SWITCHES = 30,
    CHILDREN = 5,
    RUNS = 20,
    LEAST_SAMPLES = 100
};

static ucontext_t home, coroutines[COROUTINES];
static unsigned char *painted;
static const char *top_of_frame;
static void *volatile remote_blocks[BLOCKS];
static int guarded;
static sem_t locked, released;

/* Allocates many blocks that live at the same time, because blocks at guard pages are chosen when a bin is refilled. */
static void allocate(void)
{
    static void *volatile blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        void *block = malloc(SIZE);
        guarded += malloc_usable_size(block) == SIZE;
        blocks[i] = i % 4 == 0 ? realloc(block, 5 * SIZE) : block;
    }
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    void *volatile large = malloc(LARGE);
    free(large);
}

static void free_remote(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        free(remote_blocks[i]);
    }
}

static void do_nothing(void) {}

/* Allocates the blocks for remote frees. The thread waits, because if it ended, another thread could adopt its slabs. */
static void *make_remote(void *done)
{
    for (int i = 0; i < BLOCKS; i++) {
        remote_blocks[i] = malloc(SIZE);
    }
    sem_post(&locked);
    sem_wait(done);
    return NULL;
}

static void (*volatile work)(void);

static void painted_work(void)
{
    top_of_frame = __builtin_frame_address(0);
    work();
}

/* Returns the stack depth in bytes that the work reaches below its first frame. */
static size_t depth_of(void (*what)(void))
{
    size_t untouched = 0;
    work = what;
    memset(painted, PAINT, PAINTED);
    getcontext(&coroutines[0]);
    coroutines[0].uc_stack = (stack_t){.ss_sp = painted, .ss_size = PAINTED};
    coroutines[0].uc_link = &home;
    makecontext(&coroutines[0], painted_work, 0);
    swapcontext(&home, &coroutines[0]);
    while (painted[untouched] == PAINT) {
        untouched++;
    }
    return (size_t)(top_of_frame - (const char *)(painted + untouched));
}

static int compare(const void *a, const void *b)
{
    size_t first = *(const size_t *)a, second = *(const size_t *)b;
    return (first > second) - (first < second);
}

/* Tests the median of the stack depths of several runs, because a run may also purge or map memory, or learn. */
static void test_depths(size_t deepest)
{
    pthread_t thread;
    size_t nothing = depth_of(do_nothing), depths[RUNS];
    for (int i = 0; i < RUNS; i++) {
        depths[i] = depth_of(allocate);
    }
    qsort(depths, RUNS, sizeof depths[0], compare);
    size_t alone = depths[RUNS / 2];
    pthread_create(&thread, NULL, make_remote, &released);
    sem_wait(&locked);
    size_t remote = depth_of(free_remote);
    sem_post(&released);
    pthread_join(thread, NULL);
    printf("depth: %zu bytes of stack for allocations, %zu for remote frees\n", alone - nothing, remote - nothing);
    CHECK(alone - nothing <= deepest, "%zu bytes", alone - nothing);
    CHECK(remote - nothing <= deepest, "%zu bytes", remote - nothing);
}

/* Returns memory of a size that is rounded up. It lies directly above pages without access. */
static void *stack_of(size_t size)
{
    char *stack = mmap(NULL, PAGE + size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED && mprotect(stack + PAGE, size, PROT_READ | PROT_WRITE) == 0, "no stack");
    return stack + PAGE;
}

static void coroutine(int number)
{
    for (int i = 0; i < SWITCHES; i++) {
        void *volatile block = malloc(1000 + (size_t)number);
        swapcontext(&coroutines[number], &home);
        free(block);
    }
}

/* Takes samples in coroutines whose stacks have room only for a sample and a frame of swapcontext. */
static void test_coroutines(size_t deepest)
{
    for (int i = 0; i < COROUTINES; i++) {
        getcontext(&coroutines[i]);
        coroutines[i].uc_stack = (stack_t){.ss_sp = stack_of(deepest + 1024), .ss_size = deepest + 1024};
        coroutines[i].uc_link = &home;
        makecontext(&coroutines[i], (void (*)(void))coroutine, 1, i);
    }
    for (int round = 0; round <= SWITCHES; round++) {
        for (int i = 0; i < COROUTINES; i++) {
            swapcontext(&home, &coroutines[i]);
        }
    }
}

static void on_signal(int number)
{
    (void)number;
    allocate();
}

/* Takes samples in a signal handler. Its stack has room for a sample and for the frame of a handler, whose size the system tells. */
static void test_handler(size_t deepest)
{
    size_t size = (size_t)sysconf(_SC_MINSIGSTKSZ) + deepest + 512;
    stack_t stack = {.ss_sp = stack_of(size), .ss_size = size};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    CHECK(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0, "a stack of %zu bytes", size);
    for (int i = 0; i < 3; i++) {
        raise(SIGUSR1);
    }
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, NULL);
}

static void *in_thread(void *unused)
{
    allocate();
    return unused;
}

static void test_thread(void)
{
    pthread_attr_t how;
    pthread_t thread;
    pthread_attr_init(&how);
    pthread_attr_setstacksize(&how, (size_t)PTHREAD_STACK_MIN);
    CHECK(pthread_create(&thread, &how, in_thread, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
}

static int count_modules(struct dl_phdr_info *info, size_t size, void *added)
{
    (void)size;
    *(unsigned long long *)added = info->dlpi_adds;
    return 1;
}

static unsigned long long modules_added(void)
{
    unsigned long long added = 0;
    dl_iterate_phdr(count_modules, &added);
    return added;
}

/* The loader calls this function while it holds its lock. */
static int hold(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)info;
    (void)size;
    (void)unused;
    sem_post(&locked);
    sem_wait(&released);
    return 1;
}

static void *in_loader(void *unused)
{
    dl_iterate_phdr(hold, NULL);
    return unused;
}

static void test_loader_locked(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, in_loader, NULL) == 0, "no thread");
    sem_wait(&locked);
    allocate();
    for (int i = 0; i < CHILDREN; i++) {
        int status = -1;
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            allocate();
            _exit(0);
        }
        waitpid(child, &status, 0);
        CHECK(status == 0, "a child ended with status %x", (unsigned)status);
    }
    sem_post(&released);
    pthread_join(thread, NULL);
}

static int is_on(const char *option)
{
    const char *value = getenv(option);
    return value != NULL && *value != 0;
}

/* Checks that some of the allocations were sampled. Without samples, the test would test nothing. */
static void check_samples(void)
{
    static const char path[] = "/tmp/hakmem_small_samples.heap";
    int (*profile_to)(const char *);
    unsigned long count = 0;
    void *address = dlsym(RTLD_DEFAULT, "hak_heap_profile");
    memcpy(&profile_to, &address, sizeof address);
    CHECK(address != NULL && profile_to(path) == 0, "no profile");
    FILE *file = fopen(path, "r");
    CHECK(file != NULL && fscanf(file, "heap profile: %*u: %*u [%lu:", &count) == 1 && count > LEAST_SAMPLES,
          "%lu samples", count);
    if (file != NULL) {
        (void)fclose(file);
    }
    unlink(path);
}

int main(int argc, char **argv)
{
    size_t deepest = argc > 1 ? strtoul(argv[1], NULL, 10) : 2048;
    watchdog_start(60, "small samples");
    sem_init(&locked, 0, 0);
    sem_init(&released, 0, 0);
    painted = mmap(NULL, PAINTED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned long long added = modules_added();
    if (argc > 2) { /* runs this test first, because the first sample must be on a small stack */
        test_coroutines(deepest);
        return check_report("small samples");
    }
    test_loader_locked(); /* runs first, because the first sample must come while the loader's lock is held */
    test_depths(deepest);
    test_coroutines(deepest);
    test_handler(deepest);
    test_thread();
    CHECK(modules_added() == added, "a sample loaded a module");
    CHECK(!is_on("HAKMEM_GUARD_SAMPLE") || guarded > 0, "no block at a guard page");
    if (is_on("HAKMEM_HEAP_SAMPLE")) {
        check_samples();
    }
    return check_report("small samples");
}
