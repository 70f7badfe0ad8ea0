#include <errno.h>
#include <fcntl.h>
#include <asm/prctl.h>
#include <link.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "os/os.h"

#define KEEPING_ERRNO(statement)                                                                                       \
    do {                                                                                                               \
        int saved_errno = errno;                                                                                       \
        statement;                                                                                                     \
        errno = saved_errno;                                                                                           \
    } while (0)

static void *linux_map(size_t size, enum hk_access access)
{
    static const int protection[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};
    /* Address space that nobody writes is free of charge; writable memory is charged as any program's. */
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (access == HK_ACCESS_WRITE ? 0 : MAP_NORESERVE);
    void *p;
    KEEPING_ERRNO(p = mmap(NULL, size, protection[access], flags, -1, 0));
    return p == MAP_FAILED ? NULL : p;
}

static bool linux_unmap(void *p, size_t size)
{
    int r;
    KEEPING_ERRNO(r = munmap(p, size));
    return r == 0;
}

/* A sandbox that forbids mprotect may still allow mmap; its refusal of the one says nothing about memory. */
static bool linux_commit(void *p, size_t size)
{
    int saved_errno = errno;
    bool done = mprotect(p, size, PROT_READ | PROT_WRITE) == 0;
    if (!done && (errno == EPERM || errno == ENOSYS || errno == EACCES)) {
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
        done = mmap(p, size, PROT_READ | PROT_WRITE, flags, -1, 0) != MAP_FAILED;
    }
    errno = saved_errno;
    return done;
}

static bool linux_purge(void *p, size_t size)
{
    int r;
    KEEPING_ERRNO(r = madvise(p, size, MADV_DONTNEED));
    return r == 0;
}

static bool linux_remap(void *p, size_t old_size, size_t new_size, void *to)
{
    void *q;
    if (to == NULL)
        KEEPING_ERRNO(q = mremap(p, old_size, new_size, 0));
    else
        KEEPING_ERRNO(q = mremap(p, old_size, new_size, MREMAP_MAYMOVE | MREMAP_FIXED, to));
    return q != MAP_FAILED;
}

static bool linux_advise_huge(void *p, size_t size, bool wanted)
{
    int r;
    KEEPING_ERRNO(r = madvise(p, size, wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE));
    return r == 0;
}

static uint64_t linux_clock_ms(void)
{
    struct timespec now = {0, 0};
    KEEPING_ERRNO((void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now));
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* A futex that nobody wakes: a sleep by a call that the sandboxes of threaded programs allow. */
static void sleep_for(struct timespec time)
{
    static _Atomic uint32_t nobody_wakes;
    KEEPING_ERRNO((void)syscall(SYS_futex, &nobody_wakes, FUTEX_WAIT_PRIVATE, 0, &time, NULL, 0));
}

static void linux_pause(void) { sleep_for((struct timespec){0, 50000}); }

static void linux_rest(uint64_t ms) { sleep_for((struct timespec){(time_t)(ms / 1000), (long)(ms % 1000) * 1000000}); }

static bool linux_in_loader(const void *code)
{
    uintptr_t base = getauxval(AT_BASE);
    if (base == 0)
        return false;
    const ElfW(Ehdr) *image = (const void *)base;
    const ElfW(Phdr) *segment = (const void *)(base + image->e_phoff);
    for (unsigned i = 0; i < image->e_phnum; i++)
        if (segment[i].p_type == PT_LOAD && (uintptr_t)code - base - segment[i].p_vaddr < segment[i].p_memsz)
            return true;
    return false;
}

/* In a static program, before its start-up code has set up thread-local storage, the register is 0. */
static bool linux_has_thread_pointer(void)
{
#if defined(__x86_64__)
    unsigned long pointer = 0;
    KEEPING_ERRNO((void)syscall(SYS_arch_prctl, ARCH_GET_FS, &pointer));
    return pointer != 0;
#else
    return __builtin_thread_pointer() != NULL;
#endif
}

static void linux_futex_wait(_Atomic uint32_t *word, uint32_t expected)
{
    KEEPING_ERRNO((void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0));
}

static void linux_futex_wake(_Atomic uint32_t *word, int count)
{
    KEEPING_ERRNO((void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0));
}

static void linux_write(int fd, const void *bytes, size_t size)
{
    int saved_errno = errno;
    for (const char *at = bytes; size > 0;) {
        ssize_t n = write(fd, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        at += n;
        size -= (size_t)n;
    }
    errno = saved_errno;
}

static int linux_create(const char *path)
{
    int fd;
    KEEPING_ERRNO(fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    return fd;
}

static void linux_close(int fd) { KEEPING_ERRNO((void)close(fd)); }

static size_t linux_read_file(const char *path, char *bytes, size_t size)
{
    int saved_errno = errno;
    size_t used = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t n;
        while (used < size - 1 && (n = read(fd, bytes + used, size - 1 - used)) > 0)
            used += (size_t)n;
        (void)close(fd);
    }
    bytes[used] = 0;
    errno = saved_errno;
    return used;
}

/* The C library learns of the environment in a constructor of its own, which may come after HAKMEM's. */
static char **early_environment;

static void linux_environment_begins(char **variables) { early_environment = variables; }

static char **linux_environment(void)
{
    static char *nothing[] = {NULL};
    char **variables = environ != NULL ? environ : early_environment;
    return getauxval(AT_SECURE) != 0 || variables == NULL ? nothing : variables;
}

static const char *linux_option_text(const char *name)
{
    size_t length = strlen(name);
    for (char **entry = linux_environment(); *entry != NULL; entry++)
        if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
            return *entry + length + 1;
    return NULL;
}

static size_t linux_address_limit(void)
{
    struct rlimit limit;
    int r;
    KEEPING_ERRNO(r = getrlimit(RLIMIT_AS, &limit));
    return r != 0 || limit.rlim_cur == RLIM_INFINITY ? SIZE_MAX : (size_t)limit.rlim_cur;
}

static int linux_process_id(void) { return getpid(); }

static uintptr_t linux_program_break(void) { return (uintptr_t)sbrk(0); }

struct hk_os hk_os = {
    .map = linux_map,
    .unmap = linux_unmap,
    .commit = linux_commit,
    .purge = linux_purge,
    .remap = linux_remap,
    .advise_huge = linux_advise_huge,
    .clock_ms = linux_clock_ms,
    .pause = linux_pause,
    .rest = linux_rest,
    .in_loader = linux_in_loader,
    .has_thread_pointer = linux_has_thread_pointer,
    .futex_wait = linux_futex_wait,
    .futex_wake = linux_futex_wake,
    .write = linux_write,
    .create = linux_create,
    .close = linux_close,
    .read_file = linux_read_file,
    .option_text = linux_option_text,
    .environment_begins = linux_environment_begins,
    .environment = linux_environment,
    .address_limit = linux_address_limit,
    .process_id = linux_process_id,
    .program_break = linux_program_break,
};

void *hk_os_map_aligned(size_t size, size_t align, enum hk_access access)
{
    char *p = hk_os.map(size, access);
    if (p == NULL || ((uintptr_t)p & (align - 1)) == 0)
        return p;
    hk_os.unmap(p, size);
    p = hk_os.map(size + align - HK_PAGE, access);
    if (p == NULL)
        return NULL;
    size_t before = (size_t)(-(uintptr_t)p & (align - 1));
    char *aligned = p + before;
    size_t after = align - HK_PAGE - before;
    /* An edge that cannot be unmapped (no VMA left to split into) stays as untouched address space. */
    if (before > 0)
        hk_os.unmap(p, before);
    if (after > 0)
        hk_os.unmap(aligned + size, after);
    return aligned;
}
