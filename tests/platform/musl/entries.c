/* Usage: test_entries LEAST
 * Tests HAKMEM on musl, preloaded or linked. Every entry point of musl must be HAKMEM's, with musl's results and errno. Blocks that musl allocates
 * and the program frees must be HAKMEM's too. Entry points that only glibc has must return without an effect. At least LEAST calls must be served. */
#include "hakmem.h"
#include "support/check.h"

#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 2000 };

#pragma weak hak_get_stats
#pragma weak hak_malloc_usable_size
#pragma weak mallopt
#pragma weak malloc_trim
#pragma weak cfree

int mallopt(int parameter, int value);
int malloc_trim(size_t keep);
void cfree(void *block);

static uint64_t served(void)
{
    struct hak_stats stats;
    CHECK(hak_get_stats != NULL && hak_get_stats(&stats, sizeof stats) == 0, "no counts");
    return stats.mallocs;
}

/* Checks that the block is HAKMEM's: both functions give the same usable size. With a block of musl, hak_malloc_usable_size would end the program. */
static void ours(void *block, size_t size, size_t align, const char *what)
{
    CHECK(block != NULL && (uintptr_t)block % align == 0, "%s: %p", what, block);
    CHECK(malloc_usable_size(block) >= size && hak_malloc_usable_size(block) == malloc_usable_size(block), "%s of %zu",
          what, size);
    memset(block, 0xa5, size);
    free(block);
}

static void test_sizes(void)
{
    for (size_t size = 1; size < 8 << 20; size += size / 3 + 1) {
        void *block;
        ours(malloc(size), size, 16, "malloc");
        ours(calloc(1, size), size, 16, "calloc");
        ours(realloc(malloc(1), size), size, 16, "realloc");
        ours(reallocarray(NULL, 1, size), size, 16, "reallocarray");
        for (size_t align = 16; align <= 1 << 16; align *= 4) {
            ours(aligned_alloc(align, size), size, align, "aligned_alloc");
            ours(memalign(align, size), size, align, "memalign");
            CHECK(posix_memalign(&block, align, size) == 0, "posix_memalign");
            ours(block, size, align, "posix_memalign");
        }
        ours(valloc(size), size, 4096, "valloc");
    }
}

static void test_refusals(void)
{
    void *block = NULL;
    volatile size_t huge = SIZE_MAX / 2;
    errno = 0;
    CHECK(malloc(huge) == NULL && errno == ENOMEM, "malloc of half the address space: errno %d", errno);
    errno = 0;
    CHECK(calloc(huge, 4) == NULL && errno == ENOMEM, "a calloc that overflows: errno %d", errno);
    CHECK(posix_memalign(&block, 3, 10) == EINVAL && block == NULL, "an alignment of 3");
    free(NULL);
    errno = 7;
    free(malloc(100));
    CHECK(errno == 7, "free changes errno to %d", errno);
}

/* Tests blocks that musl allocates and the program must free. */
static void test_libc(void)
{
    uint64_t before = served();
    char *line = NULL;
    size_t room = 0;
    FILE *file = fopen("/proc/self/status", "r");
    CHECK(file != NULL && getline(&line, &room, file) > 0, "getline");
    ours(line, room, 1, "getline's line");
    CHECK(fclose(file) == 0, "fclose");
    ours(strdup("a text"), 7, 1, "strdup");
    ours(realpath("/", NULL), 2, 1, "realpath");
    CHECK(asprintf(&line, "%d", 12345) == 5, "asprintf");
    ours(line, 6, 1, "asprintf");
    DIR *folder = opendir("/");
    CHECK(folder != NULL && closedir(folder) == 0, "opendir");
    CHECK(served() >= before + 6, "served %lu of musl's own calls", (unsigned long)(served() - before));
}

/* Tests functions that only glibc has. */
static void test_others(void)
{
    CHECK(mallopt(1, 64) == 1 && malloc_trim(0) >= 0, "mallopt, malloc_trim");
    cfree(malloc(10));
}

static void *own_thread(void *block)
{
    free(block);
    void *last = malloc(3000);
    check_thread_done();
    return last;
}

static void test_threads(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        pthread_t thread;
        void *block = malloc(50), *left = NULL;
        CHECK(pthread_create(&thread, NULL, own_thread, block) == 0 && pthread_join(thread, &left) == 0, "thread %d",
              i);
        ours(left, 3000, 16, "a block of an ended thread");
    }
}

int main(int argc, char **argv)
{
    uint64_t least = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    test_sizes();
    test_refusals();
    test_libc();
    test_others();
    test_threads();
    CHECK(served() >= least, "served %lu calls only", (unsigned long)served());
    return check_report("entries");
}
