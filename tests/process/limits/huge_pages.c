/* Usage: test_huge_pages idle | heap | threads | parts | tables
 * Measures resident memory that would grow if each mapping got a huge page. It prints `name number` lines. test_huge_pages.py compares them
 * between the system's modes of huge pages.
 *   idle      makes no calls
 *   heap      allocates 64 MiB of blocks of 100 B, and writes each block
 *   threads   starts 300 threads that hold 60 small blocks each, and then end
 *   parts     allocates 1,000 blocks of 64 KiB to 1 MiB, and writes the first byte of each
 *   tables    allocates 100 blocks of 16 MiB, and writes the first byte of each block */
#include "support/procinfo.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { KIB = 1 << 10, MIB = 1 << 20, THREADS = 300, OF_EACH = 60, STACK = 128 * KIB };

static void say(const char *name, size_t number) { printf("%s %zu\n", name, number); }
static void say_resident(const char *name) { say(name, procinfo_rss_kib()); }

static int idle(void)
{
    say_resident("idle_kib");
    return 0;
}

static char *written(size_t size, size_t bytes)
{
    char *block = malloc(size);
    if (block == NULL)
        abort();
    memset(block, 1, bytes);
    return block;
}

static int heap(void)
{
    for (size_t built = 0; built < (size_t)64 * MIB; built += 100)
        written(100, 100);
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    say_resident("heap_kib");
    say("heap_faults", (size_t)used.ru_minflt);
    return 0;
}

static pthread_barrier_t all_hold, may_end;

static void *hold_some(void *unused)
{
    char *blocks[OF_EACH];
    for (size_t i = 0; i < OF_EACH; i++)
        blocks[i] = written(16 + 8 * i, 16 + 8 * i);
    pthread_barrier_wait(&all_hold);
    pthread_barrier_wait(&may_end);
    for (size_t i = 0; i < OF_EACH; i++)
        free(blocks[i]);
    return unused;
}

static int threads(void)
{
    static pthread_t thread[THREADS];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK);
    pthread_barrier_init(&all_hold, NULL, THREADS + 1);
    pthread_barrier_init(&may_end, NULL, THREADS + 1);
    for (unsigned i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], &small, hold_some, NULL) != 0)
            return 1;
    pthread_barrier_wait(&all_hold);
    say_resident("threads_kib");
    pthread_barrier_wait(&may_end);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    say_resident("ended_kib");
    return 0;
}

static int parts(void)
{
    for (size_t i = 0; i < 1000; i++)
        written(64 * KIB + i * 960, 1);
    say_resident("parts_kib");
    return 0;
}

static int tables(void)
{
    for (unsigned i = 0; i < 100; i++)
        written((size_t)16 * MIB, 1);
    say_resident("tables_kib");
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } cases[] = {{"idle", idle}, {"heap", heap}, {"threads", threads}, {"parts", parts}, {"tables", tables}};
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++)
        if (strcmp(argv[1], cases[i].name) == 0)
            return cases[i].run();
    return 2;
}
