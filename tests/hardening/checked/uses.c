/* Tests that HAKMEM never refuses a correct use, and that the functions have the same results as those of the C library. The test uses every function
 * up to the last byte of blocks of many sizes, zero bytes at any address, overlapping ranges, blocks that are resized in place, neighbors that other
 * threads free, signal handlers, and fork. */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "functions.h"
#include "api/misuse/joined_block.h"
#include "support/check.h"
#include "support/rng.h"

enum { THREADS = 4, ROUNDS = 20000, HELD = 64, INTERRUPTS = 2000, PAGE = 4096 };

static void expect(const struct function *function, const char *at, size_t n)
{
    size_t wrong = 0, text = function->shape == TEXT && n > 0 ? n - 1 : n;
    for (size_t i = 0; i < text; i++)
        if (function->shape != FILLS)
            wrong += at[i] != source[i];
        else
            wrong += at[i] != (strstr(function->name, "zero") != NULL ? 0 : 'z');
    wrong += text < n && at[n - 1] != 0;
    CHECK(wrong == 0, "%s of %zu bytes: %zu are wrong", function->name, n, wrong);
}

static void whole_block(const struct function *function, char *block)
{
    size_t size = malloc_usable_size(block), half = size / 2;
    act(function, block, size);
    expect(function, block, size);
    act(function, block + half, size - half);
    expect(function, block + half, size - half);
    act(function, block + size - 1, 1);
    expect(function, block + size - 1, 1);
    if (function->shape == FILLS)
        return;
    memset(block, 'x', size - 1);
    block[size - 1] = 0;
    function->act(target, block, size);
    CHECK(memcmp(target, block, size) == 0, "%s of a whole block of %zu bytes", function->name, size);
}

/* Tests blocks of user heaps, whose slabs and large blocks lie between those of the process. */
static void user_heaps(void)
{
    static const size_t some[] = {1, 16, 100, 1000, 5000, 50000, 100000, 1000000, 3000000};
    void *(*create)(const char *, size_t), *(*allocate)(void *, size_t);
    *(void **)&create = dlsym(RTLD_DEFAULT, "hak_heap_create");
    *(void **)&allocate = dlsym(RTLD_DEFAULT, "hak_heap_malloc");
    CHECK(create != NULL && allocate != NULL, "no user heaps");
    void *heap = create("checked", 0);
    CHECK(heap != NULL, "no user heap");
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        char *block = allocate(heap, some[i]);
        for (size_t f = 0; f < function_count; f++)
            whole_block(&functions[f], block);
        free(block);
    }
}

static void sizes(void)
{
    static const size_t some[] = {1,    8,     15,    16,    17,     24,      100,     1000,   4096,
                                  5000, 32768, 50000, 65536, 262144, 1000000, 2097152, 3000000};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        char *block = malloc(some[i]);
        for (size_t f = 0; f < function_count; f++)
            whole_block(&functions[f], block);
        free(block);
    }
}

/* Copies of zero bytes must be accepted everywhere. The end of a block may be the start of a freed block. */
static void no_bytes(void)
{
    char *blocks[HELD];
    for (int i = 0; i < HELD; i++)
        blocks[i] = malloc(4096);
    volatile size_t none = 0;
    char *freed = blocks[1], *places[] = {blocks[0], blocks[0] + 4096, freed, freed + 1, NULL, target};
    for (int i = 1; i < HELD; i += 2)
        free(blocks[i]);
    malloc_trim(0);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        char *volatile at = places[i];
        CHECK(memcpy(at, at, none) == at, "memcpy of nothing");
        CHECK(memmove(at, target, none) == at, "memmove of nothing");
        CHECK(memset(at, 1, none) == at, "memset of nothing");
        CHECK(mempcpy(at, at, none) == at, "mempcpy of nothing");
        CHECK(strncpy(at, at, none) == at, "strncpy of nothing");
        CHECK(stpncpy(at, at, none) == at, "stpncpy of nothing");
        CHECK(__memcpy_chk(at, at, none, none) == at, "__memcpy_chk of nothing");
        bcopy(at, at, none);
        bzero(at, none);
    }
    for (int i = 0; i < HELD; i += 2)
        free(blocks[i]);
}

/* Copies overlapping ranges in both directions. memcpy is tested too, as long as the C library's older version of it copies like memmove. */
static void overlapping(void)
{
    enum { LONG = 100000 };
    char *block = malloc(LONG);
    for (size_t n = 1; n < LONG / 2; n = n * 3 + 1)
        for (int forwards = 0; forwards < 2; forwards++) {
            size_t from = forwards ? 0 : n / 2 + 1, to = forwards ? n / 2 + 1 : 0;
            memcpy(block + from, source, n);
            CHECK(memmove(block + to, block + from, n) == block + to, "result");
            CHECK(memcmp(block + to, source, n) == 0, "memmove of %zu bytes", n);
            memcpy(block + from, source, n);
            bcopy(block + from, block + to, n);
            CHECK(memcmp(block + to, source, n) == 0, "bcopy of %zu bytes", n);
        }
    free(block);
}

static void results(void)
{
    char *block = malloc(100);
    memset(block, '.', 100);
    CHECK(strcpy(block, "abc") == block && stpcpy(block, "abcd") == block + 4, "strcpy, stpcpy");
    CHECK(strncpy(block + 10, "ab", 5) == block + 10 && memcmp(block + 9, ".ab\0\0\0.", 7) == 0, "strncpy");
    CHECK(stpncpy(block + 20, "abc", 2) == block + 22 && block[22] == '.', "stpncpy");
    CHECK(stpncpy(block + 20, "a", 3) == block + 21 && block[22] == 0, "stpncpy with padding");
    CHECK(strcat(block, "efg") == block && strcmp(block, "abcdefg") == 0, "strcat");
    CHECK(strncat(block, "hijk", 2) == block && strcmp(block, "abcdefghi") == 0, "strncat");
    CHECK(mempcpy(block, "xyz", 3) == block + 3, "mempcpy");
    CHECK(__strcpy_chk(block, "ab", 3) == block && strcmp(block, "ab") == 0, "__strcpy_chk");
    CHECK(__strncat_chk(block, "cdef", 2, 5) == block && strcmp(block, "abcd") == 0, "__strncat_chk");
    free(block);
}

/* Calls a fortified function on a block that has room for the bytes. With `less` = 1, the last argument says that the object is one byte too small.
 * With `less` = 0, it is exactly right. */
static void call_fortified(unsigned which, char *block, size_t less)
{
    static char ab[] = "ab", cdef[] = "cdef";
    switch (which) {
    case 0: __memcpy_chk(block, source, 50, 50 - less); break;
    case 1: __memmove_chk(block, source, 50, 50 - less); break;
    case 2: __mempcpy_chk(block, source, 50, 50 - less); break;
    case 3: __memset_chk(block, 'x', 50, 50 - less); break;
    case 4: __strcpy_chk(block, cdef, 5 - less); break;
    case 5: __stpcpy_chk(block, cdef, 5 - less); break;
    case 6: __strncpy_chk(block, cdef, 50, 50 - less); break;
    case 7: __stpncpy_chk(block, cdef, 50, 50 - less); break;
    case 8: __strcat_chk(strcpy(block, ab), cdef, 7 - less); break;
    default: __strncat_chk(strcpy(block, ab), cdef, 2, 5 - less); break;
    }
}

static void fortified(void)
{
    int status;
    for (unsigned which = 0; which < 20; which++) {
        pid_t child = fork();
        if (child == 0) {
            char *block = malloc(100);
            close(STDERR_FILENO);
            call_fortified(which / 2, block, which % 2);
            _exit(0);
        }
        waitpid(child, &status, 0);
        CHECK(which % 2 == 0 ? status == 0 : WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT,
              "fortified call %u: status %x", which, (unsigned)status);
    }
}

/* Tests text in a mapping of the program between large blocks, and addresses near the heap where nothing is mapped. */
static void between_blocks(void)
{
    char *blocks[HELD], *volatile small = malloc(100);
    for (int i = 0; i < HELD; i++)
        blocks[i] = malloc(2 * MIB);
    for (int i = 1; i < HELD; i += 2)
        free(blocks[i]);
    malloc_trim(0);
    int found = 0;
    for (int i = 1; i < HELD; i += 2) {
        char *page = blocks[i] + MIB, copy[8];
        if (mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != page)
            continue;
        found++;
        strcpy(page, "between");
        CHECK(strcmp(strcpy(copy, page), "between") == 0, "text between two blocks");
        memset(page, 0, PAGE);
        munmap(page, PAGE);
    }
    CHECK(found > 2, "%d places between blocks", found);
    for (int i = 0; i < HELD; i += 2)
        free(blocks[i]);
    volatile size_t none = 0;
    for (uintptr_t far = 20; far < 40; far++) {
        char *volatile at = (char *)((uintptr_t)small + ((uintptr_t)1 << far));
        CHECK(memcpy(at, at, none) == at, "memcpy of nothing");
    }
    free(small);
}

static void fill(char *block, size_t n)
{
    memset(block, 'a', n);
    memcpy(block + n - 1, source, 1);
    if (n > 1)
        memmove(block + 1, block, n - 1);
}

static void resized(void)
{
    char *block = malloc(1);
    for (size_t size = 1; size < 20000000; size = size * 5 / 4 + 1) {
        block = realloc(block, size);
        fill(block, size);
        fill(block + size / 2, size - size / 2);
    }
    for (size_t size = 20000000; size > 100; size = size * 3 / 4) {
        block = realloc(block, size);
        fill(block, size);
        fill(block + size / 2, size - size / 2);
    }
    free(block);
}

static void *_Atomic exchange[HELD];

/* Allocates blocks of random sizes, fills them completely, passes them to other threads and frees them, while other threads do the same. */
static void *work(void *seed)
{
    struct rng rng = rng_seeded((uint64_t)(uintptr_t)seed);
    for (int i = 0; i < ROUNDS; i++) {
        size_t size = (size_t)1 << (rng_next(&rng) % 12);
        if (i % 64 == 0)
            size = 1 + rng_next(&rng) % (i % 1024 == 0 ? 3 * MIB : 200 * KIB);
        char *block = malloc(size);
        fill(block, size);
        fill(block + size / 2, size - size / 2);
        char *other = __atomic_exchange_n((void **)&exchange[rng_next(&rng) % HELD], (void *)block, __ATOMIC_ACQ_REL);
        if (other != NULL) {
            memcpy(other, source, malloc_usable_size(other) / 2);
            free(other);
        }
    }
    return NULL;
}

static void threads(void)
{
    pthread_t thread[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, work, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < HELD; i++)
        free(exchange[i]);
}

static char *shared;
static volatile sig_atomic_t interrupts;

/* Sets a timer that fires once, after some microseconds. A thread that sends signals in a loop would need a processor of its own. */
static void set_timer(void)
{
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {0, 20 + interrupts % 97}}, NULL);
}

static void interrupt(int number)
{
    (void)number;
    memset(shared + 2 * MIB, interrupts % 100, 3 * MIB - 2 * MIB);
    strcpy(shared, "text");
    if (++interrupts < INTERRUPTS)
        set_timer();
}

/* The handler of the timer looks up large blocks while the interrupted thread may hold the lock of the large blocks. */
static void *allocate(void *alarms)
{
    pthread_sigmask(SIG_UNBLOCK, alarms, NULL);
    set_timer();
    while (interrupts < INTERRUPTS) {
        char *block = malloc(2 * MIB);
        memset(block + MIB, 1, MIB);
        free(block);
    }
    return NULL;
}

static void handlers(void)
{
    pthread_t thread;
    sigset_t alarms;
    shared = malloc(3 * MIB);
    signal(SIGALRM, interrupt);
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarms, NULL);
    pthread_create(&thread, NULL, allocate, &alarms);
    pthread_join(thread, NULL);
    free(shared);
}

static void children(void)
{
    int status;
    char *block = malloc(3 * MIB), *small = malloc(100);
    for (int i = 0; i < 50; i++) {
        pid_t child = fork();
        if (child == 0) {
            fill(block, 3 * MIB);
            fill(small, 100);
            fill(malloc(500), 500);
            _exit(7);
        }
        waitpid(child, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7, "a child ended with %x", (unsigned)status);
    }
    free(block);
    free(small);
}

static void joined_block(void)
{
    char *block = a_joined();
    for (size_t f = 0; f < function_count; f++)
        whole_block(&functions[f], block);
}

int main(void)
{
    for (size_t i = 0; i < SOURCE; i++)
        source[i] = (char)(1 + i % 100);
    joined_block(); /* must be the first test, because later free slabs would serve the block */
    sizes();
    user_heaps();
    no_bytes();
    overlapping();
    results();
    fortified();
    between_blocks();
    resized();
    threads();
    handlers();
    children();
    return check_report("checked_uses");
}
