/* Usage: test_leaks MODE [FILE]
 * Allocates in functions whose names the profile must contain, and ends. Prints the live bytes as "live FUNCTION BYTES", and all allocated bytes as
 * "allocated FUNCTION BYTES". If FILE is given, hak_heap_profile() writes a profile to it. The modes are:
 *   plain    two functions leak, and one frees everything; errno must be kept
 *   kinds    uses calloc, aligned memory, and realloc that moves a block, grows it in place, or shrinks it
 *   threads  each thread leaks, another thread frees half of it, and the threads end
 *   fork     the child leaks too; both processes write their profile at exit
 *   heaps    blocks of user heaps, of which one is reset
 *   many     enough small blocks to fill the tables of the profile */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LARGE = 1 << 20, SMALL = 100, SMALL_BLOCKS = 200000, LARGE_BLOCKS = 60, THREADS = 4, MANY = 150000 };
#define SAMPLED_HEAP __attribute__((noinline))

static void *kept[SMALL_BLOCKS + LARGE_BLOCKS];
static void *volatile sink; /* prevents tail calls */

static SAMPLED_HEAP void *leaks_large(void)
{
    sink = malloc(LARGE);
    return sink;
}

static SAMPLED_HEAP void *leaks_small(void)
{
    sink = malloc(SMALL);
    return sink;
}

static SAMPLED_HEAP void frees_all(void)
{
    for (int i = 0; i < SMALL_BLOCKS; i++) {
        sink = malloc(SMALL);
        free(sink);
    }
}

static void said(const char *what, const char *function, size_t bytes) { printf("%s %s %zu\n", what, function, bytes); }

static void plain(void)
{
    errno = EDOM;
    for (int i = 0; i < LARGE_BLOCKS; i++)
        kept[i] = leaks_large();
    for (int i = 0; i < SMALL_BLOCKS; i++)
        kept[LARGE_BLOCKS + i] = leaks_small();
    frees_all();
    if (errno != EDOM)
        abort();
    said("live", "leaks_large", (size_t)LARGE_BLOCKS * LARGE);
    said("live", "leaks_small", (size_t)SMALL_BLOCKS * SMALL);
    said("live", "frees_all", 0);
    said("allocated", "frees_all", (size_t)SMALL_BLOCKS * SMALL);
}

static SAMPLED_HEAP void *callocs(size_t size)
{
    sink = calloc(1, size);
    return sink;
}

static SAMPLED_HEAP void *grows(void *block, size_t size)
{
    sink = realloc(block, size);
    return sink;
}

static SAMPLED_HEAP void *aligns(size_t align, size_t size)
{
    void *block = NULL;
    if (posix_memalign(&block, align, size) != 0)
        abort();
    sink = block;
    return block;
}

static SAMPLED_HEAP void *new_arrays(size_t size)
{
    sink = aligned_alloc(64, size);
    return sink;
}

static void kinds(void)
{
    for (int i = 0; i < LARGE_BLOCKS; i++) {
        (void)callocs(LARGE);
        void *block = leaks_large();
        for (size_t size = LARGE; size <= 8 * (size_t)LARGE; size *= 2)
            block = grows(block, size);
        (void)grows(block, 2 * (size_t)LARGE);
        (void)aligns(4096, LARGE);
        (void)new_arrays(LARGE);
    }
    said("live", "callocs", (size_t)LARGE_BLOCKS * LARGE);
    said("live", "grows", 2 * (size_t)LARGE_BLOCKS * LARGE);
    said("live", "aligns", (size_t)LARGE_BLOCKS * LARGE);
    said("live", "new_arrays", (size_t)LARGE_BLOCKS * LARGE);
    said("live", "leaks_large", 0);
}

static void *leak_in_thread(void *slots)
{
    void **own = slots;
    for (int i = 0; i < LARGE_BLOCKS; i++)
        own[i] = leaks_large();
    return NULL;
}

static void threads(void)
{
    pthread_t thread[THREADS];
    static void *slots[THREADS][LARGE_BLOCKS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, leak_in_thread, slots[i]) != 0)
            abort();
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < THREADS; i++)
        for (int j = 0; j < LARGE_BLOCKS; j += 2)
            free(slots[i][j]);
    said("live", "leaks_large", (size_t)THREADS * LARGE_BLOCKS * LARGE / 2);
    said("allocated", "leaks_large", (size_t)THREADS * LARGE_BLOCKS * LARGE);
}

static SAMPLED_HEAP void *child_leaks(void)
{
    sink = malloc(LARGE);
    return sink;
}

static void forked(void)
{
    int status = 0;
    for (int i = 0; i < LARGE_BLOCKS; i++)
        kept[i] = leaks_large();
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < LARGE_BLOCKS; i++)
            free(kept[i]);
        for (int i = 0; i < LARGE_BLOCKS; i++)
            (void)child_leaks();
        exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        abort();
    printf("child %d\n", (int)child);
    said("live", "leaks_large", (size_t)LARGE_BLOCKS * LARGE);
    said("child", "child_leaks", (size_t)LARGE_BLOCKS * LARGE);
}

static void *(*heap_malloc)(void *heap, size_t size);
static SAMPLED_HEAP void *leaks_in_heap(void *heap, size_t size)
{
    sink = heap_malloc(heap, size);
    return sink;
}

static SAMPLED_HEAP void reset_frees(void *heap)
{
    for (int i = 0; i < LARGE_BLOCKS; i++)
        sink = heap_malloc(heap, LARGE);
}

static void heaps(void)
{
    void *(*create)(const char *, size_t) = (void *(*)(const char *, size_t))dlsym(RTLD_DEFAULT, "hak_heap_create");
    int (*reset)(void *) = (int (*)(void *))dlsym(RTLD_DEFAULT, "hak_heap_reset");
    heap_malloc = (void *(*)(void *, size_t))dlsym(RTLD_DEFAULT, "hak_heap_malloc");
    void *leaking = create("leaking", 0), *other = create("other", 0);
    for (int i = 0; i < LARGE_BLOCKS; i++) {
        kept[i] = leaks_in_heap(leaking, LARGE);
        kept[i] = realloc(kept[i], (i % 2 == 0 ? 1 : 2) * (size_t)LARGE);
        free(leaks_in_heap(leaking, LARGE));
    }
    for (int i = 0; i < SMALL_BLOCKS; i++)
        (void)leaks_in_heap(leaking, SMALL);
    reset_frees(other);
    reset(other);
    said("live", "leaks_in_heap", (size_t)LARGE_BLOCKS / 2 * LARGE + (size_t)SMALL_BLOCKS * SMALL);
    said("live", "heaps", (size_t)LARGE_BLOCKS * LARGE);
    said("live", "reset_frees", 0);
    said("allocated", "reset_frees", (size_t)LARGE_BLOCKS * LARGE);
}

static void many(void)
{
    for (int i = 0; i < MANY; i++)
        kept[i] = leaks_small();
    for (int i = 0; i < MANY; i++)
        free(kept[i]);
}

static int write_profile(const char *path)
{
    int (*profile)(const char *) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "hak_heap_profile");
    if (profile == NULL)
        return -1;
    return profile("/no/such/folder/file") == -1 ? profile(path) : -1;
}

int main(int argc, char **argv)
{
    const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {{"plain", plain}, {"kinds", kinds}, {"threads", threads},
                 {"fork", forked}, {"heaps", heaps}, {"many", many}};
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof modes[0]; i++)
        if (strcmp(argv[1], modes[i].name) == 0) {
            modes[i].run();
            return argc > 2 && write_profile(argv[2]) != 0;
        }
    return 2;
}
