/* Counts the calls of the malloc family, and passes them to the C library. The test of the benchmarks compares these counts with those that a
 * benchmark prints. The report has the format of HAKMEM's report, because the test reads both.
 *   HAKMEM_REPORT=FILE.json  is the file of the report; HAKMEM_REPORT=FOLDER/ names a folder, in which each process writes PID.json
 *   COUNTING_LOSE=N          leaves every N-th call out of the counts, which the test must notice */
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void __libc_free(void *block);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);

static _Atomic unsigned long mallocs, frees, reallocs;

void *malloc(size_t size)
{
    atomic_fetch_add_explicit(&mallocs, 1, memory_order_relaxed);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    atomic_fetch_add_explicit(&mallocs, 1, memory_order_relaxed);
    return __libc_calloc(count, size);
}

void free(void *block)
{
    if (block != NULL)
        atomic_fetch_add_explicit(&frees, 1, memory_order_relaxed);
    __libc_free(block);
}

void *realloc(void *block, size_t size)
{
    atomic_fetch_add_explicit(&reallocs, 1, memory_order_relaxed);
    return __libc_realloc(block, size);
}

static unsigned long kept(unsigned long calls, unsigned long lose) { return lose != 0 ? calls - calls / lose : calls; }

__attribute__((destructor)) static void report(void)
{
    const char *given = getenv("HAKMEM_REPORT");
    if (given == NULL || given[0] == 0)
        return;
    char path[4096];
    if (given[strlen(given) - 1] == '/')
        snprintf(path, sizeof path, "%s%d.json", given, (int)getpid());
    else
        snprintf(path, sizeof path, "%s", given);
    const char *lose_text = getenv("COUNTING_LOSE");
    unsigned long lose = lose_text != NULL ? strtoul(lose_text, NULL, 10) : 0;
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0)
        return;
    dprintf(file, "{\"served\": {\"malloc\": %lu, \"free\": %lu, \"realloc\": %lu}}\n", kept(mallocs, lose),
            kept(frees, lose), kept(reallocs, lose));
    close(file);
}
