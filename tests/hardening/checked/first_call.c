/* Usage: test_first_call [LIBRARY]
 * The first call of a process starts HAKMEM, and the start decides whether the guard is on. This tests that the block of the first call is guarded
 * like all later blocks. So its free is no fault, and a byte written after its end is a fault. It tests each function that allocates, with small and
 * large sizes, in main and before the constructors. The child is this program, called as test_first_call - WHEN FORM SIZE WRONG. It runs on
 * libhakmem-hardened.so (LIBRARY), or with HAKMEM_HARDENED=1 on the archive that it is linked with. */
#include "support/again.h"
#include "support/check.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ALIGN = 64, FAILED = 3 };

void *_Znwm(size_t) __attribute__((weak));
void *_Znam(size_t) __attribute__((weak));
void *_ZnwmRKSt9nothrow_t(size_t, const void *) __attribute__((weak));
void *_ZnamRKSt9nothrow_t(size_t, const void *) __attribute__((weak));
void *_ZnwmSt11align_val_t(size_t, size_t) __attribute__((weak));
void *_ZnamSt11align_val_t(size_t, size_t) __attribute__((weak));
void _ZdlPv(void *) __attribute__((weak));
void _ZdaPv(void *) __attribute__((weak));
void _ZdlPvSt11align_val_t(void *, size_t) __attribute__((weak));
void _ZdaPvSt11align_val_t(void *, size_t) __attribute__((weak));
void *memalign(size_t align, size_t size);
void *valloc(size_t size);
void *pvalloc(size_t size);

static void *by_posix_memalign(size_t size)
{
    void *block;
    return posix_memalign(&block, ALIGN, size) == 0 ? block : NULL;
}
static void *by_calloc(size_t size)
{
    unsigned char *block = calloc(1, size);
    for (size_t n = 0; block != NULL && n < size; n++)
        if (block[n] != 0)
            _exit(FAILED);
    return block;
}
static void *by_realloc(size_t size) { return realloc(NULL, size); }
static void *by_reallocarray(size_t size) { return reallocarray(NULL, 1, size); }
static void *by_aligned_alloc(size_t size) { return aligned_alloc(ALIGN, size); }
static void *by_memalign(size_t size) { return memalign(ALIGN, size); }
static void *by_new_nothrow(size_t size) { return _ZnwmRKSt9nothrow_t(size, ""); }
static void *by_new_array_nothrow(size_t size) { return _ZnamRKSt9nothrow_t(size, ""); }
static void *by_new_aligned(size_t size) { return _ZnwmSt11align_val_t(size, ALIGN); }
static void *by_new_array_aligned(size_t size) { return _ZnamSt11align_val_t(size, ALIGN); }
static void *by_new(size_t size) { return _Znwm(size); }
static void *by_new_array(size_t size) { return _Znam(size); }
static void delete (void *block) { _ZdlPv(block); }
static void delete_array(void *block) { _ZdaPv(block); }
static void delete_aligned(void *block) { _ZdlPvSt11align_val_t(block, ALIGN); }
static void delete_array_aligned(void *block) { _ZdaPvSt11align_val_t(block, ALIGN); }

static const struct form {
    const char *name;
    void *(*make)(size_t size);
    void (*end)(void *block);
} forms[] = {
    {"malloc", malloc, free},
    {"calloc", by_calloc, free},
    {"realloc", by_realloc, free},
    {"reallocarray", by_reallocarray, free},
    {"aligned_alloc", by_aligned_alloc, free},
    {"memalign", by_memalign, free},
    {"posix_memalign", by_posix_memalign, free},
    {"valloc", valloc, free},
    {"pvalloc", pvalloc, free},
    {"new", by_new, delete},
    {"new[]", by_new_array, delete_array},
    {"new nothrow", by_new_nothrow, delete},
    {"new[] nothrow", by_new_array_nothrow, delete_array},
    {"new aligned", by_new_aligned, delete_aligned},
    {"new[] aligned", by_new_array_aligned, delete_array_aligned},
};
enum { FORMS = sizeof forms / sizeof forms[0] };
static const char *const sizes[] = {"24", "40000", "3000008"};

static void child(char **arguments)
{
    const struct form *form = &forms[atoi(arguments[3])];
    size_t size = (size_t)atoi(arguments[4]);
    if (strcmp(form->name, "pvalloc") == 0)
        size = (size + 0xffff) & ~(size_t)0xffff;
    unsigned char *block = form->make(size);
    if (block == NULL)
        _exit(FAILED);
    memset(block, 0xa5, size);
    *(volatile unsigned char *)(block + size - (arguments[5][0] == '0')) ^= 0xff;
    form->end(block);
    _exit(0);
}

static bool is_child(int count, char **arguments, const char *when)
{
    return count == 6 && strcmp(arguments[1], "-") == 0 && strcmp(arguments[2], when) == 0;
}

static const char *const times[] = {"main", "before"};

/* This runs before the constructor of the archive, which has no priority. Only glibc passes the arguments to constructors. */
static __attribute__((constructor(101))) void before(int count, char **arguments)
{
    bool passed = false;
#if defined(__GLIBC__)
    passed = true;
#endif
    if (passed && is_child(count, arguments, times[1]))
        child(arguments);
}

static int status_of(const char *library, const char *when, unsigned form, const char *size, const char *wrong)
{
    char number[12], preload[4096];
    struct again self;
    snprintf(number, sizeof number, "%u", form);
    snprintf(preload, sizeof preload, library != NULL ? "LD_PRELOAD=%s" : "HAKMEM_HARDENED=%s",
             library != NULL ? library : "1");
    char *const variables[] = {preload, NULL}, **words = again(&self, "-", when, number, size, wrong, NULL);
    pid_t pid = fork();
    CHECK(pid >= 0, "fork");
    if (pid == 0) {
        if (wrong[0] == '1')
            dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
        execve(words[0], words, variables);
        _exit(FAILED);
    }
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid, "waitpid");
    return status;
}

int main(int count, char **arguments)
{
    if (is_child(count, arguments, times[0]) || is_child(count, arguments, times[1]))
        child(arguments);
    const char *library = count > 1 ? arguments[1] : NULL;
    for (unsigned when = 0; when < sizeof times / sizeof times[0]; when++)
        for (unsigned form = 0; form < FORMS; form++)
            for (unsigned size = 0; size < sizeof sizes / sizeof sizes[0]; size++) {
                int right = status_of(library, times[when], form, sizes[size], "0");
                int wrong = status_of(library, times[when], form, sizes[size], "1");
                CHECK(right == 0, "%s of %s bytes in %s: status %x", forms[form].name, sizes[size], times[when],
                      (unsigned)right);
                CHECK(WIFSIGNALED(wrong), "%s of %s bytes in %s, one byte too many: status %x", forms[form].name,
                      sizes[size], times[when], (unsigned)wrong);
            }
    return check_report("first_call");
}
