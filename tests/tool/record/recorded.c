/* A program whose calls of the malloc family are known. It prints the numbers of its calls as one line of JSON with write(2), which allocates
 * nothing.
 *
 *   recorded MODE [FILE]   FILE becomes descriptor 2
 *   MODE               family, realloc, aligned, large, threads, churn, remote, fork, vfork, exec, leave, killed, full, early
 *
 * Counts are numbers of blocks. live and peak are requested bytes. The program does not use stdio, because stdio allocates blocks of its own. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, BLOCKS = 20000, SLOTS = 64, CHURN = 300 };

static struct {
    uint64_t malloc, calloc, aligned, frees, reallocs;
    int64_t live, peak;
} did;

static void took(int64_t bytes)
{
    did.live += bytes;
    did.peak = did.live > did.peak ? did.live : did.peak;
}

static void say(void)
{
    char line[400];
    int length = snprintf(
        line, sizeof line,
        "{\"malloc\": %llu, \"calloc\": %llu, \"aligned\": %llu, \"frees\": %llu, \"reallocs\": %llu, "
        "\"live\": %lld, \"peak\": %lld}\n",
        (unsigned long long)did.malloc, (unsigned long long)did.calloc, (unsigned long long)did.aligned,
        (unsigned long long)did.frees, (unsigned long long)did.reallocs, (long long)did.live, (long long)did.peak);
    if (write(STDOUT_FILENO, line, (size_t)length) != length)
        _exit(3);
}

static void need(bool holds, int code)
{
    if (!holds)
        _exit(code);
}

static void *make(size_t size)
{
    char *block = malloc(size);
    need(block != NULL, 10);
    memset(block, 1, size);
    did.malloc++;
    took((int64_t)size);
    return block;
}

static void drop(void *block, size_t size)
{
    free(block);
    did.frees++;
    took(-(int64_t)size);
}

static uint32_t next_random(uint32_t *state) { return *state = *state * 1664525u + 1013904223u; }

/* ---- one thread -------------------------------------------------------- */

static void family(void)
{
    uint32_t random = 1;
    void *blocks[SLOTS] = {NULL};
    size_t sizes[SLOTS];
    for (int i = 0; i < BLOCKS; i++) {
        unsigned slot = next_random(&random) >> 8 & (SLOTS - 1);
        if (blocks[slot] != NULL)
            drop(blocks[slot], sizes[slot]);
        sizes[slot] = next_random(&random) >> 8 & 0xfff;
        if (i % 5 != 0) {
            blocks[slot] = make(sizes[slot]);
            continue;
        }
        blocks[slot] = calloc(sizes[slot] + 1, 1);
        sizes[slot]++;
        did.calloc++;
        took((int64_t)sizes[slot]);
    }
    free(NULL); /* has no effect, so it is not counted */
}

static void reallocs(void)
{
    uint32_t random = 2;
    size_t size = 100;
    char *block = make(size);
    for (int i = 0; i < 3000; i++) {
        size_t to = 1 + (next_random(&random) >> 8 & 0x3ffff);
        block = realloc(block, to);
        need(block != NULL, 11);
        did.reallocs++;
        took((int64_t)to - (int64_t)size);
        size = to;
        memset(block, 2, size);
    }
    void *volatile huge = realloc(block, PTRDIFF_MAX); /* is refused, so the block stays */
    need(huge == NULL, 12);
    block = reallocarray(block, 10, 10);
    did.reallocs++;
    took(100 - (int64_t)size);
    drop(block, 100);
    block = realloc(NULL, 64);
    did.malloc++;
    took(64);
    need(realloc(block, 0) == NULL, 13); /* frees the block, as in glibc */
    did.frees++;
    took(-64);
}

static void aligned(void)
{
    void *blocks[40];
    for (unsigned i = 0; i < 40; i++) {
        size_t align = (size_t)8 << i % 10, size = align * (1 + i);
        blocks[i] = NULL;
        if (i % 4 == 0)
            blocks[i] = memalign(align, size);
        else if (i % 4 == 1)
            blocks[i] = aligned_alloc(align, size);
        else if (i % 4 == 2)
            need(posix_memalign(&blocks[i], align, size) == 0, 14);
        else
            blocks[i] = valloc(size);
        need(blocks[i] != NULL, 15);
        did.aligned++;
        took((int64_t)size);
    }
    void *none = NULL;
    need(posix_memalign(&none, 24, 64) == EINVAL && none == NULL, 16);
    need(malloc_usable_size(blocks[0]) >= 8, 17);
    for (unsigned i = 0; i < 40; i++) {
        size_t align = (size_t)8 << i % 10;
        drop(blocks[i], align * (1 + i));
    }
}

/* Allocates a block of 64 MiB, and writes only to the first MiB. */
static void large(void)
{
    size_t size = (size_t)64 << 20;
    char *block = malloc(size);
    need(block != NULL, 18);
    did.malloc++;
    took((int64_t)size);
    memset(block, 3, (size_t)1 << 20);
    drop(block, size);
}

/* ---- threads ----------------------------------------------------------- */

static void *work(void *seed)
{
    uint32_t random = (uint32_t)(uintptr_t)seed;
    void *blocks[SLOTS] = {NULL};
    for (int i = 0; i < BLOCKS; i++) {
        unsigned slot = next_random(&random) >> 8 & (SLOTS - 1);
        free(blocks[slot]);
        blocks[slot] = malloc(8 + (next_random(&random) >> 8 & 0x1ff));
        need(blocks[slot] != NULL, 20);
    }
    for (int i = 0; i < SLOTS; i++)
        free(blocks[i]);
    return NULL;
}

/* Starts threads. Each thread frees its own blocks. */
static void threads(void)
{
    pthread_t thread[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        need(pthread_create(&thread[i], NULL, work, (void *)(i + 1)) == 0, 21);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    did.malloc += (uint64_t)THREADS * BLOCKS;
    did.frees += (uint64_t)THREADS * BLOCKS;
}

static void *short_life(void *unused)
{
    free(malloc(100));
    return unused;
}

static void churn(void)
{
    for (int i = 0; i < CHURN; i++) {
        pthread_t thread;
        need(pthread_create(&thread, NULL, short_life, NULL) == 0, 22);
        pthread_join(thread, NULL);
    }
    did.malloc += CHURN;
    did.frees += CHURN;
}

static struct {
    _Atomic(void *) ring[256];
} passed;

static void *give(void *unused)
{
    for (unsigned i = 0; i < BLOCKS; i++) {
        char *block = malloc(16 + i % 500);
        need(block != NULL, 23);
        block[0] = 1;
        _Atomic(void *) *place = &passed.ring[i % 256];
        for (void *none = NULL; !atomic_compare_exchange_weak(place, &none, block); none = NULL)
            sched_yield();
    }
    return unused;
}

/* One thread allocates blocks, and another thread frees them. */
static void remote(void)
{
    pthread_t giver;
    need(pthread_create(&giver, NULL, give, NULL) == 0, 24);
    for (unsigned i = 0; i < BLOCKS; i++) {
        void *block;
        while ((block = atomic_exchange(&passed.ring[i % 256], NULL)) == NULL)
            sched_yield();
        free(block);
    }
    pthread_join(giver, NULL);
    did.malloc += BLOCKS;
    did.frees += BLOCKS;
}

/* ---- processes --------------------------------------------------------- */

static void fork_with_threads(void)
{
    void *before = make(1000);
    pthread_t thread[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        need(pthread_create(&thread[i], NULL, work, (void *)(i + 1)) == 0, 25);
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        if (child == 0) {
            memset(&did, 0, sizeof did);
            free(before); /* a block of the parent, which the child's recording does not have */
            family();
            say();
            _exit(0);
        }
        int status;
        need(waitpid(child, &status, 0) == child && status == 0, 26);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    did.malloc += (uint64_t)THREADS * BLOCKS;
    did.frees += (uint64_t)THREADS * BLOCKS;
    drop(before, 1000);
}

static void vfork_and_leave(void)
{
    void *block = make(500);
    for (int i = 0; i < 20; i++) {
        pid_t child = vfork();
        if (child == 0)
            _exit(0);
        waitpid(child, NULL, 0);
    }
    drop(block, 500);
}

static void become(const char *self)
{
    make(777);
    say();
    execl(self, self, "family", (char *)NULL);
    _exit(4);
}

static void *from_constructor;
__attribute__((constructor)) static void early(void) { from_constructor = malloc(333); }

static void run(const char *mode)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {{"family", family},         {"realloc", reallocs}, {"aligned", aligned}, {"large", large},
                 {"threads", threads},       {"churn", churn},      {"remote", remote},   {"fork", fork_with_threads},
                 {"vfork", vfork_and_leave}, {"leave", family},     {"killed", family}};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(mode, modes[i].name) == 0)
            return modes[i].run();
    _exit(64);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    if (argc > 2) {
        close(STDERR_FILENO);
        need(open(argv[2], O_WRONLY | O_CREAT | O_EXCL, 0600) == STDERR_FILENO, 12);
    }
    did.malloc = 1;
    took(333);
    if (strcmp(mode, "exec") == 0)
        become(argv[0]);
    run(mode);
    drop(from_constructor, 333);
    say();
    if (strcmp(mode, "leave") == 0)
        _exit(0);
    if (strcmp(mode, "killed") == 0)
        kill(getpid(), SIGKILL);
    return 0;
}
