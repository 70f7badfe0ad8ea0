/* Usage: test_growth_limited [under MIB]
 * Tests a buffer that realloc grows under a limit of address space or of data. The buffer must be able to take all that the limit leaves.
 * If realloc returns NULL, the system must refuse a mapping of the added bytes too. HAKMEM must never need room for the old and the new
 * buffer together. The limit exists from the start or is set later. In some cases idle blocks fill most of the limit, the buffer belongs to a
 * private heap, or several threads grow buffers. */
#include "rlimit.h"

#include "hakmem.h"
#include "support/check.h"
#include "support/procinfo.h"
#include "support/watchdog.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
enum { PAGE = 4096, THREADS = 24 };
/* HAKMEM's tables and the rounding to whole pages may need `spare` bytes. */
static const size_t room = 192 * MIB, spare = 2 * MIB;

static const struct growth {
    const char *name;
    size_t numerator, denominator;
} growths[] = {{"2", 2, 1}, {"1.5", 3, 2}, {"1.1", 11, 10}};

struct vector {
    hak_heap_t *heap; /* NULL means the heap of the process */
    char *bytes;
    size_t size, next;
};

/* Grows the vector once, and marks the first byte of the new part. Returns false if realloc refuses. */
static bool grow(struct vector *vector, const struct growth *growth)
{
    vector->next = vector->size == 0 ? PAGE : vector->size * growth->numerator / growth->denominator;
    char *longer = vector->heap != NULL ? hak_heap_realloc(vector->heap, vector->bytes, vector->next)
                                        : realloc(vector->bytes, vector->next);
    if (longer == NULL)
        return false;
    longer[vector->size] = (char)(vector->size / PAGE);
    longer[vector->next - 1] = 1;
    vector->bytes = longer;
    vector->size = vector->next;
    return true;
}

static void check_marks(const struct vector *grown, const struct growth *growth)
{
    for (size_t at = 0, next = PAGE; at < grown->size; at = next, next = at * growth->numerator / growth->denominator)
        CHECK(grown->bytes[at] == (char)(at / PAGE), "byte %zu of a vector of %zu", at, grown->size);
}

static void drop(struct vector *vector)
{
    if (vector->heap != NULL)
        hak_heap_free(vector->heap, vector->bytes);
    else
        free(vector->bytes);
}

static bool system_has(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p != MAP_FAILED && munmap(p, bytes) == 0;
}

static void grow_to_the_limit(const char *how, const struct growth *growth, hak_heap_t *heap)
{
    struct vector vector = {.heap = heap};
    errno = 0;
    while (grow(&vector, growth))
        CHECK(errno == 0, "errno %d after a success", errno);
    CHECK(errno == ENOMEM, "%s, times %s: errno %d", how, growth->name, errno);
    size_t missing = vector.next - vector.size;
    CHECK(!system_has(missing + spare), "%s, times %s: %zu KiB refused from %zu KiB on, and the system has them", how,
          growth->name, missing >> 10, vector.size >> 10);
    check_marks(&vector, growth);
    printf("  %s, times %s: %zu KiB\n", how, growth->name, vector.size >> 10);
    drop(&vector);
}

/* Leaves idle blocks of all sizes in the caches, so that they fill three quarters of the limit. */
static void use_and_free(void)
{
    static const size_t size[] = {100, 3000, 40 << 10, 700 << 10, 3 << 20, 48 << 20};
    static void *blocks[600000];
    size_t count = 0;
    for (size_t i = 0; i < sizeof size / sizeof size[0]; i++)
        for (size_t bytes = 0; bytes < room / 8; bytes += size[i])
            CHECK((blocks[count++] = malloc(size[i])) != NULL, "%zu bytes", size[i]);
    while (count > 0)
        free(blocks[--count]);
}

static void *grow_beside_others(void *argument)
{
    const struct growth *growth = argument;
    for (int round = 0; round < 3; round++) {
        struct vector vector = {.heap = NULL};
        while (vector.size < 12 * MIB && grow(&vector, growth))
            continue;
        check_marks(&vector, growth);
        drop(&vector);
    }
    check_thread_done();
    return argument;
}

/* Several threads grow buffers. Only the contents are checked, because a refusal is right if another thread has reserved memory for a moment. */
static void grow_in_threads(const struct growth *growth)
{
    pthread_t thread[THREADS];
    pthread_attr_t small;
    int started = 0;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 128 << 10);
    while (started < THREADS && pthread_create(&thread[started], &small, grow_beside_others, (void *)growth) == 0)
        started++;
    CHECK(started > 0, "no thread");
    while (started > 0)
        pthread_join(thread[--started], NULL);
}

static void grow_in_all_ways(const char *how)
{
    for (size_t i = 0; i < sizeof growths / sizeof growths[0]; i++)
        grow_to_the_limit(how, &growths[i], NULL);
    use_and_free();
    grow_to_the_limit(how, &growths[1], NULL);
    use_and_free();
    hak_heap_t *heap = hak_heap_create("grown", 0);
    grow_to_the_limit(how, &growths[1], heap);
    hak_heap_destroy(heap);
    grow_in_threads(&growths[1]);
    grow_to_the_limit(how, &growths[2], NULL);
}

/* Tests buffers under a limit in a child, which has blocks that are older than the limit. */
static void grow_under(bool address_space, const char *how)
{
    free(malloc(5 * MIB));
    pid_t child = fork();
    CHECK(child >= 0, "fork: errno %d", errno);
    if (child == 0) {
        size_t used = address_space ? procinfo_vmsize_kib() << 10 : 8 * MIB;
        struct rlimit limit = {used + room, used + room};
        CHECK(setrlimit(address_space ? RLIMIT_AS : RLIMIT_DATA, &limit) == 0, "setrlimit: errno %d", errno);
        grow_in_all_ways(how);
        fflush(stdout);
        _exit(check_report(how));
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: 0x%x", how,
          (unsigned)status);
}

int main(int argc, char **argv)
{
    watchdog_start(240, "growth_limited");
    if (argc == 3 && strcmp(argv[1], "under") == 0) {
        grow_in_all_ways("RLIMIT_AS from the start");
        return check_report("growth_limited under");
    }
    grow_under(true, "RLIMIT_AS set late");
    grow_under(false, "RLIMIT_DATA set late");
    char *arguments[] = {argv[0], "under", "220", NULL};
    int status = rlimit_run_self(arguments, 220, NULL, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "from the start: 0x%x", (unsigned)status);
    return check_report("growth_limited");
}
