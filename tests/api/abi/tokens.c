/* Usage: test_tokens apart|ignored
 * Tests the entry points of Clang's AllocToken, called as instrumented code calls them.
 *   apart    with the protection `types`, an address must never serve two groups of tokens, or a group and code without a token, even after frees
 *            by other threads, after realloc and trims, and in a fork child; the functions must zero, align and refuse as the plain functions do
 *   ignored  without the protection, an address serves any later request (control) */
#include "support/check.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <malloc.h>
#include <unistd.h>

#define NAMED(type, name, parameters) extern type name parameters __attribute__((weak))
NAMED(void *, __alloc_token_malloc, (size_t, size_t));
NAMED(void *, __alloc_token_calloc, (size_t, size_t, size_t));
NAMED(void *, __alloc_token_realloc, (void *, size_t, size_t));
NAMED(void *, __alloc_token_reallocarray, (void *, size_t, size_t, size_t));
NAMED(void *, __alloc_token_aligned_alloc, (size_t, size_t, size_t));
NAMED(void *, __alloc_token_memalign, (size_t, size_t, size_t));
NAMED(int, __alloc_token_posix_memalign, (void **, size_t, size_t, size_t));
NAMED(void *, __alloc_token_valloc, (size_t, size_t));
NAMED(void *, __alloc_token_pvalloc, (size_t, size_t));
NAMED(void *, __alloc_token__Znwm, (size_t, size_t));
NAMED(void *, __alloc_token_Znam, (size_t, size_t));
NAMED(void *, __alloc_token__ZnwmRKSt9nothrow_t, (size_t, const void *, size_t));
NAMED(void *, __alloc_token__ZnamSt11align_val_t, (size_t, size_t, size_t));
NAMED(void *, __alloc_token_ZnwmSt11align_val_tRKSt9nothrow_t, (size_t, size_t, const void *, size_t));
NAMED(void, _ZdlPv, (void *));
NAMED(void, _ZdaPv, (void *));
NAMED(void, _ZdaPvSt11align_val_t, (void *, size_t));
NAMED(void, _ZdlPvSt11align_val_t, (void *, size_t));

/* Each token has a group of its own. Two tokens are small numbers, and the other two are large. PLAIN means malloc without a token. */
static const size_t tokens[] = {1, 6, (size_t)1 << 62, SIZE_MAX};
enum { TOKENS = sizeof tokens / sizeof tokens[0], PLAIN = TOKENS, GROUPS, BLOCKS = 600, ROUNDS = 6, PAGE = 4096 };
/* A hash table of all addresses of blocks, with the groups that had a block at each address. */
enum { PLACES = 1 << 20 };
static struct {
    uintptr_t address;
    unsigned groups;
} seen[PLACES];
static unsigned shared;

static void note(const void *block, unsigned group)
{
    uintptr_t address = (uintptr_t)block;
    size_t at = (address >> 4) * 0x9e3779b97f4a7c15u >> 44;
    while (seen[at].address != 0 && seen[at].address != address)
        at = (at + 1) % PLACES;
    seen[at].address = address;
    unsigned before = seen[at].groups;
    seen[at].groups |= 1u << group;
    shared += before != 0 && (before & (1u << group)) == 0;
}

static size_t size_of(unsigned i) { return i % 97 == 96 ? 100000 + i : i % 13 == 12 ? 5000 + i : 1 + i % 700; }

static void *allocate(unsigned group, unsigned i)
{
    size_t size = size_of(i), token = group < TOKENS ? tokens[group] : 0;
    void *block = NULL;
    if (group == PLAIN)
        return i % 2 ? malloc(size) : calloc(1, size);
    switch (i % 8) {
    case 0: return __alloc_token_calloc(1, size, token);
    case 1: return __alloc_token_realloc(__alloc_token_malloc(size / 2 + 1, token), size, token);
    case 2: return __alloc_token_aligned_alloc(64, size, token);
    case 3: return __alloc_token_posix_memalign(&block, 256, size, token) == 0 ? block : NULL;
    case 4: return __alloc_token_reallocarray(NULL, 1, size, token);
    case 5: return realloc(__alloc_token_malloc(size / 2 + 1, token), size); /* without instrumentation */
    case 6: return __alloc_token_realloc(malloc(size / 2 + 1), size, token);
    default: return __alloc_token_malloc(size, token);
    }
}

static void *free_all(void *given)
{
    void **block = given;
    for (unsigned i = 0; i < BLOCKS; i++)
        free(block[i]);
    check_thread_done();
    return NULL;
}

static void one_round(unsigned round)
{
    static void *block[BLOCKS];
    for (unsigned turn = 0; turn < GROUPS; turn++) {
        unsigned group = (turn + round) % GROUPS;
        for (unsigned i = 0; i < BLOCKS; i++) {
            block[i] = allocate(group, i);
            CHECK(block[i] != NULL && malloc_usable_size(block[i]) >= size_of(i), "block %u of group %u", i, group);
            note(block[i], group);
            memset(block[i], 0x5a, size_of(i));
        }
        pthread_t thread;
        if (round % 2 == 0 && pthread_create(&thread, NULL, free_all, block) == 0)
            pthread_join(thread, NULL);
        else
            free_all(block);
        if (round == 3)
            malloc_trim(0);
    }
}

static void test_results(size_t token)
{
    char *block = __alloc_token_malloc(3000, token);
    memset(block, 1, 3000);
    free(block);
    block = __alloc_token_calloc(3, 1000, token);
    bool zero = true;
    for (unsigned i = 0; i < 3000; i++)
        zero = zero && block[i] == 0;
    CHECK(zero, "calloc is not zero");
    memset(block, 7, 3000);
    block = __alloc_token_realloc(block, 60000, token);
    CHECK(block[0] == 7 && block[2999] == 7, "realloc has lost the contents");
    block = __alloc_token_realloc(block, 3 << 20, token ^ 2);
    CHECK(block[0] == 7 && block[2999] == 7, "a large realloc has lost the contents");
    block = __alloc_token_realloc(block, 100, token);
    CHECK(block[0] == 7 && block[99] == 7, "a small realloc has lost the contents");
    CHECK(__alloc_token_realloc(block, 0, token) == NULL, "realloc to nothing is a free");
    for (size_t align = 16; align <= 1 << 20; align *= 2) {
        block = __alloc_token_memalign(align, 100, token);
        CHECK((uintptr_t)block % align == 0, "memalign(%zu)", align);
        free(block);
    }
    CHECK((uintptr_t)(block = __alloc_token_valloc(10, token)) % PAGE == 0, "valloc");
    free(block);
    CHECK((uintptr_t)(block = __alloc_token_pvalloc(10, token)) % PAGE == 0 && malloc_usable_size(block) >= PAGE,
          "pvalloc");
    free(block);
    errno = 0;
    volatile size_t huge = SIZE_MAX / 2;
    CHECK(__alloc_token_malloc(huge, token) == NULL && errno == ENOMEM, "refused: errno %d", errno);
    CHECK(__alloc_token_calloc(huge, 3, token) == NULL, "a calloc that overflows");
    CHECK(__alloc_token_posix_memalign((void **)&block, 24, 10, token) == EINVAL, "posix_memalign(24)");
    CHECK(__alloc_token_posix_memalign((void **)&block, 16, huge, token) == ENOMEM, "posix_memalign of too much");
    CHECK(__alloc_token_reallocarray(NULL, huge, 3, token) == NULL, "a reallocarray that overflows");
    free(__alloc_token_malloc(0, token));
}

static void test_operators(size_t token)
{
    static const char tag;
    _ZdlPv(__alloc_token__Znwm(100, token));
    _ZdaPv(__alloc_token_Znam(100, token));
    _ZdlPv(__alloc_token__ZnwmRKSt9nothrow_t(100, &tag, token));
    _ZdaPvSt11align_val_t(__alloc_token__ZnamSt11align_val_t(100, 128, token), 128);
    _ZdlPvSt11align_val_t(__alloc_token_ZnwmSt11align_val_tRKSt9nothrow_t(100, 64, &tag, token), 64);
}

int main(int argc, char **argv)
{
    bool apart = argc > 1 && strcmp(argv[1], "apart") == 0;
    CHECK(__alloc_token_malloc != NULL, "no entry points");
    for (unsigned round = 0; round < ROUNDS; round++)
        one_round(round);
    for (unsigned i = 0; i < TOKENS; i++) {
        test_results(tokens[i]);
        test_operators(tokens[i]);
    }
    pid_t child = fork();
    if (child == 0) {
        for (unsigned round = 0; round < 2; round++)
            one_round(round);
        _exit(check_failures() == 0 && (!apart || shared == 0) ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the fork child: 0x%x", (unsigned)status);
    CHECK(apart ? shared == 0 : shared > 100, "%u addresses served two groups", shared);
    return check_report("tokens");
}
