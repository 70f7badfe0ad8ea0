/* Usage: test_address_space idle | large blocks GIB | slabs GIB | limited MIB | locked | wait
 * Measures a process's address space, and its allocations under limits. It prints `name number` lines. test_address_space.py compares them
 * with the same run on the C library.
 *   idle          makes no calls
 *   large blocks  allocates GIB in blocks of 64 MiB, and touches no block
 *   slabs         allocates GIB in blocks of 512 KiB, and touches no block
 *   limited       sets RLIMIT_AS to MIB, then allocates blocks, reallocates them to twice the size, and starts a thread
 *   locked        calls mlockall(MCL_CURRENT | MCL_FUTURE), then allocates blocks
 *   wait          holds 100 KB and waits until its input ends */
#include "support/procinfo.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { KIB = 1 << 10, MIB = 1 << 20 };

static void say(const char *name, size_t number) { printf("%s %zu\n", name, number); }
static void say_size(void) { say("virtual_kib", procinfo_vmsize_kib()); }

/* Allocates blocks until `gib` is reached or malloc refuses one. */
static int reserve(size_t gib, size_t block)
{
    size_t bytes = 0;
    while (bytes < gib << 30 && malloc(block) != NULL)
        bytes += block;
    say("heap_kib", bytes >> 10);
    say_size();
    return 0;
}

static bool serves(size_t size)
{
    char *block = malloc(size);
    if (block == NULL)
        return false;
    memset(block, 1, size);
    char *longer = realloc(block, 2 * size);
    bool right = longer != NULL && longer[size - 1] == 1;
    free(longer != NULL ? longer : block);
    return right;
}

static void serve_all(void)
{
    static const size_t size[] = {1 * KIB, 100 * KIB, 900 * KIB, 2 * MIB, 16 * MIB, 100 * MIB};
    for (size_t i = 0; i < sizeof size / sizeof size[0]; i++) {
        char name[64];
        snprintf(name, sizeof name, "serves_%zu_kib", size[i] >> 10);
        say(name, serves(size[i]));
    }
}

static void *nothing(void *argument) { return argument; }

static int limited(size_t mib)
{
    pthread_t thread;
    struct rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    void *before = malloc(100);
    limit.rlim_cur = mib << 20;
    say("set", setrlimit(RLIMIT_AS, &limit) == 0);
    serve_all();
    bool made = pthread_create(&thread, NULL, nothing, NULL) == 0;
    say("thread", made);
    if (made)
        pthread_join(thread, NULL);
    free(before);
    return 0;
}

/* Allocates little memory, because the user who runs the tests may lock only little. */
static int locked(void)
{
    void *block[64];
    size_t got = 0;
    say("locked", mlockall(MCL_CURRENT | MCL_FUTURE) == 0);
    say("locked_kib", procinfo_locked_kib());
    say("tables_kib", procinfo_tables_kib());
    for (size_t i = 0; i < 64; i++) {
        block[i] = malloc((size_t)KIB << i % 5);
        got += block[i] != NULL;
    }
    for (size_t i = 0; i < 64; i++)
        free(block[i]);
    say("blocks", got);
    return 0;
}

static int hold_and_wait(void)
{
    char *block = malloc(100 * KIB), end;
    memset(block, 7, 100 * KIB);
    say("waiting", block != NULL);
    fflush(stdout);
    while (read(STDIN_FILENO, &end, 1) > 0) {}
    free(block);
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    size_t number = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    free(malloc(100));
    if (strcmp(what, "idle") == 0)
        say_size();
    else if (strcmp(what, "large blocks") == 0)
        return reserve(number, (size_t)64 * MIB);
    else if (strcmp(what, "slabs") == 0)
        return reserve(number, (size_t)512 * KIB);
    else if (strcmp(what, "limited") == 0)
        return limited(number);
    else if (strcmp(what, "locked") == 0)
        return locked();
    else if (strcmp(what, "wait") == 0)
        return hold_and_wait();
    else
        return 2;
    return 0;
}
