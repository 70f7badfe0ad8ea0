/* Usage: test_late
 * Tests HAKMEM's messages about blocks of heaps. The blocks are freed, resized or measured too late, twice, or by a pointer into them, with and
 * without checks of each free. If the heap has ended, HAKMEM must print one line and change nothing. Otherwise it must name the mistake. A refusal
 * by a limit must print nothing. Each case runs in a process of its own. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hakmem.h"
#include "support/again.h"
#include "support/check.h"
#include "support/pattern.h"
#include "support/watchdog.h"

#define ENDED "block of a heap that was destroyed or reset"

enum { KIB = 1024, MIB = 1024 * KIB, SIZES = 4, OTHERS = 50 };
static const size_t sizes[SIZES] = {100, 20000, 300000, 3 * MIB};
static void *blocks[SIZES];
static hak_heap_t *heap;

static void end_heap(bool resets)
{
    heap = hak_heap_create("ends", 0);
    for (size_t i = 0; i < SIZES; i++)
        blocks[i] = hak_heap_malloc(heap, sizes[i]);
    CHECK((resets ? hak_heap_reset(heap) : hak_heap_destroy(heap)) == 0, "errno %d", errno);
}

/* Allocates other blocks, and checks that the mistake has not changed them. */
static void look_for_damage(void)
{
    unsigned char *others[OTHERS];
    for (size_t i = 0; i < OTHERS; i++)
        pattern_fill(others[i] = hak_malloc(sizes[i % SIZES]), sizes[i % SIZES], i);
    for (size_t i = 0; i < OTHERS; i++)
        CHECK(pattern_holds(others[i], sizes[i % SIZES], i), "block %zu", i);
    for (size_t i = 0; i < OTHERS; i++)
        hak_free(others[i]);
}

static void free_all(void)
{
    for (size_t i = 0; i < SIZES; i++) {
        CHECK(hak_heap_of(blocks[i]) == NULL, "block %zu has a heap", i);
        hak_free(blocks[i]);
        hak_heap_free(heap, blocks[i]);
    }
}

static void freed_late(void)
{
    end_heap(false);
    free_all();
    look_for_damage();
}

static void freed_after_reset(void)
{
    end_heap(true);
    free_all();
    look_for_damage();
}

/* Frees a large block of a heap after a trim has unmapped the block. */
static void freed_after_trim(void)
{
    end_heap(false);
    hak_malloc_trim(0);
    free_all();
    look_for_damage();
    hak_free(hak_heap_malloc(hak_heap_create("next", 0), 5 * MIB));
}

static pthread_barrier_t turn;

static void *free_elsewhere(void *unused)
{
    (void)unused;
    /* This call creates the thread's cache, which could otherwise get memory of the ended heap. */
    hak_free(hak_malloc(100));
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    free_all();
    pthread_barrier_wait(&turn);
    check_thread_done();
    return NULL;
}

static void freed_by_another(void)
{
    pthread_t thread;
    pthread_barrier_init(&turn, NULL, 2);
    CHECK(pthread_create(&thread, NULL, free_elsewhere, NULL) == 0, "thread");
    pthread_barrier_wait(&turn);
    end_heap(false);
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    pthread_join(thread, NULL);
    look_for_damage();
}

static void freed_after_fork(void)
{
    int status = 0;
    end_heap(false);
    pid_t child = fork();
    if (child == 0) {
        free_all();
        look_for_damage();
        _exit(check_failures() == 0 ? 0 : 3);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0, "status %d", status);
}

/* HAKMEM allocates a new block at the address of the ended heap's large block. A free of the new block must succeed and print nothing. */
static void served_again(void)
{
    if (getenv("HAKMEM_HARDENED") != NULL) /* With this option, mappings have other sizes. */
        return;
    end_heap(false);
    void *again = hak_malloc(sizes[3]);
    CHECK(again == blocks[3], "the cached mapping serves again");
    CHECK(hak_malloc_usable_size(again) >= sizes[3], "measured");
    hak_free(again);
    heap = hak_heap_create("next", 0);
    again = hak_heap_malloc(heap, sizes[3]);
    CHECK(again == blocks[3] && hak_heap_of(again) == heap, "and a heap");
    hak_free(again);
}

/* The program maps memory at the address of the large block. The freed address is then no block of HAKMEM. */
static void mapped_by_another(void)
{
    end_heap(false);
    hak_malloc_trim(0);
    void *mine = mmap(blocks[3], sizes[3], PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    CHECK(mine == blocks[3], "mmap");
    hak_free(mine);
}

static void resized_late(void)
{
    end_heap(false);
    CHECK(hak_realloc(blocks[3], 5 * MIB) == NULL, "not reached");
}

static void measured_late(void)
{
    end_heap(false);
    CHECK(hak_malloc_usable_size(blocks[3]) == 0, "not reached");
}

static void moved_late(void)
{
    end_heap(false);
    CHECK(hak_heap_realloc(hak_heap_create("next", 0), blocks[3], 100) == NULL, "not reached");
}

/* Frees the only block of a heap twice. Its slab is gone before the second free. */
static void twice(void)
{
    heap = hak_heap_create("twice", 0);
    void *block = hak_heap_malloc(heap, 100);
    hak_free(block);
    hak_free(block);
    CHECK(hak_heap_malloc(heap, 100) != NULL, "goes on");
}

static void twice_of_two(void)
{
    heap = hak_heap_create("twice", 0);
    void *block = hak_heap_malloc(heap, 100), *other = hak_heap_malloc(heap, 100);
    hak_free(block);
    hak_free(block);
    hak_free(other);
}

static void inside(void)
{
    heap = hak_heap_create("inside", 0);
    char *block = hak_heap_malloc(heap, 100), *large = hak_heap_malloc(heap, 3 * MIB);
    hak_free(block + 16);
    hak_free(block);
    hak_free(large);
}

static void refused(void)
{
    heap = hak_heap_create("limited", 3 * MIB);
    void *block = hak_heap_malloc(heap, 2 * MIB);
    errno = 0;
    CHECK(hak_realloc(block, 100 * MIB) == NULL && errno == ENOMEM, "errno %d", errno);
    CHECK(hak_heap_malloc(heap, 100 * MIB) == NULL, "a limit");
    struct hak_heap_stats stats;
    CHECK(hak_heap_get_stats(heap, &stats, sizeof stats) == 0 && stats.refused == 2, "%zu refused",
          (size_t)stats.refused);
}

static const struct mistake {
    const char *name;
    void (*make)(void);
    const char *said; /* text that must be in the one line of output; NULL for no output */
    bool fatal, only_checked;
} mistakes[] = {
    {"freed_late", freed_late, "(): " ENDED, false, false},
    {"freed_after_reset", freed_after_reset, "(): " ENDED, false, false},
    {"freed_after_trim", freed_after_trim, "(): " ENDED, false, false},
    {"freed_by_another", freed_by_another, "(): " ENDED, false, false},
    {"freed_after_fork", freed_after_fork, "(): " ENDED, false, false},
    {"served_again", served_again, NULL, false, false},
    {"mapped_by_another", mapped_by_another, "pointer not from this allocator", true, false},
    {"resized_late", resized_late, "realloc(): " ENDED, true, false},
    {"measured_late", measured_late, "malloc_usable_size(): " ENDED, true, false},
    {"moved_late", moved_late, "malloc_usable_size(): " ENDED, true, false},
    {"twice", twice, "block already free", true, true},
    {"twice_of_two", twice_of_two, "block already free", true, true},
    {"inside", inside, "pointer inside a block", true, true},
    {"refused", refused, NULL, false, false},
};

/* Runs a process that makes the mistake with an option set. Stores its output, and returns its wait status. */
static int run(const char *name, const char *option, char *said, size_t room)
{
    struct again self;
    return again_said(again(&self, name, NULL), option, said, room);
}

static void expect(const struct mistake *mistake, const char *option)
{
    char said[4096];
    bool checks = strcmp(option, "NO_OPTION") != 0, survives = strcmp(option, "HAKMEM_SAFE_FREE") == 0;
    if (mistake->only_checked && !checks)
        return;
    int status = run(mistake->name, option, said, sizeof said);
    bool dies = mistake->fatal && !(survives && mistake->only_checked);
    const char *line = strstr(said, "hakmem: ");
    if (strcmp(mistake->name, "mapped_by_another") == 0 && survives)
        return; /* With this option, HAKMEM prints another message. */
    char *stack = strstr(said, "\n  found in a call of thread ");
    if (checks && stack != NULL)
        *stack = 0;
    CHECK(dies ? WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT : WIFEXITED(status) && WEXITSTATUS(status) == 0,
          "%s, %s: status %d: %s", mistake->name, option, status, said);
    CHECK(mistake->said == NULL ? line == NULL : line != NULL && strstr(line, mistake->said) != NULL, "%s, %s: %s",
          mistake->name, option, said);
    CHECK(line == NULL || strstr(line + 1, "hakmem: ") == NULL, "%s, %s: more than one line: %s", mistake->name, option,
          said);
}

int main(int argc, char **argv)
{
    static const char *const options[] = {"NO_OPTION", "HAKMEM_SAFE_FREE", "HAKMEM_HARDENED", "HAKMEM_TRACE_REMOTE"};
    for (size_t i = 0; argc > 1 && i < sizeof mistakes / sizeof mistakes[0]; i++)
        if (strcmp(argv[1], mistakes[i].name) == 0) {
            mistakes[i].make();
            return check_failures() == 0 ? 0 : 3;
        }
    watchdog_start(300, "late");
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++)
        for (size_t option = 0; option < sizeof options / sizeof options[0]; option++)
            expect(&mistakes[i], options[option]);
    return check_report("late");
}
