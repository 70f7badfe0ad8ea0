/* Simulates a system with larger pages on a system with pages of 4 KiB. HakmemPages.cmake makes the core call these functions, not system calls,
 * and the core sees pages of COARSE_PAGE bytes. The program ends if the core makes one of these calls, which larger pages do not allow:
 *
 *   mmap, munmap, mremap, madvise, mprotect or mincore with an address or a length that is not a multiple of COARSE_PAGE
 *
 * A real kernel rounds many of these lengths up, so a purge would remove memory after the end of the range. The functions check only memory of the
 * core, which has a bit for each page, and not calls of the program itself. Any thread may call these functions. */
#undef mmap
#undef munmap
#undef mremap
#undef mincore
#undef syscall
#undef getauxval
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "coarse_pages.h"

enum { FINE = 4096, ADDRESS_BITS = 47, LEAF_SHIFT = 33, COARSE_AT_ONCE = 64, FIXED_NOREPLACE = 0x100000 };
#define LEAF_PAGES (((size_t)1 << LEAF_SHIFT) / COARSE_PAGE)

/* The bits of each leaf are mapped at the first need, because a table for all addresses would exceed the limits that tests set. */
static _Atomic(_Atomic uint8_t *) watched[1 << (ADDRESS_BITS - LEAF_SHIFT)];

static _Atomic uint8_t *bits_of(uintptr_t address)
{
    _Atomic(_Atomic uint8_t *) *leaf = &watched[address >> LEAF_SHIFT];
    _Atomic uint8_t *bits = atomic_load(leaf), *none = NULL;
    if (bits != NULL)
        return bits;
    bits = mmap(NULL, LEAF_PAGES / 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bits == MAP_FAILED)
        return NULL;
    if (atomic_compare_exchange_strong(leaf, &none, bits))
        return bits;
    (void)munmap((void *)bits, LEAF_PAGES / 8);
    return none;
}

/* If there is no memory for the bits, the page is not watched. */
static void watch(const void *p, size_t size, bool on)
{
    for (uintptr_t at = (uintptr_t)p, end = at + size; at < end; at += COARSE_PAGE) {
        _Atomic uint8_t *bits = bits_of(at);
        size_t page = at / COARSE_PAGE % LEAF_PAGES;
        uint8_t bit = (uint8_t)(1u << page % 8);
        if (bits != NULL && on)
            atomic_fetch_or(&bits[page / 8], bit);
        else if (bits != NULL)
            atomic_fetch_and(&bits[page / 8], (uint8_t)~bit);
    }
}

static bool is_watched(const void *p)
{
    uintptr_t at = (uintptr_t)p;
    size_t page = at / COARSE_PAGE % LEAF_PAGES;
    _Atomic uint8_t *bits = at >> ADDRESS_BITS == 0 ? atomic_load(&watched[at >> LEAF_SHIFT]) : NULL;
    return bits != NULL && (atomic_load(&bits[page / 8]) >> page % 8 & 1) != 0;
}

static void expect_whole(const char *call, const void *p, size_t size)
{
    if (((uintptr_t)p | size) % COARSE_PAGE == 0)
        return;
    char line[160];
    int length =
        snprintf(line, sizeof line, "coarse_pages: %s(%p, %#zx) on pages of %d bytes\n", call, p, size, COARSE_PAGE);
    (void)!write(2, line, (size_t)length);
    abort();
}

/* A file is mapped in a second step at the aligned address, because its first page must lie at that address. */
static void *map_anywhere(size_t size, int protection, int flags, int fd, off_t offset)
{
    char *p = mmap(NULL, size + COARSE_PAGE, protection, fd < 0 ? flags : MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return p;
    size_t before = -(uintptr_t)p % COARSE_PAGE;
    if (before > 0)
        (void)munmap(p, before);
    (void)munmap(p + before + size, COARSE_PAGE - before);
    return fd < 0 ? p + before : mmap(p + before, size, protection, flags | MAP_FIXED, fd, offset);
}

void *coarse_mmap(void *p, size_t size, int protection, int flags, int fd, off_t offset)
{
    expect_whole("mmap", p, size | (size_t)offset);
    void *got =
        p == NULL ? map_anywhere(size, protection, flags, fd, offset) : mmap(p, size, protection, flags, fd, offset);
    if (got != MAP_FAILED && (uintptr_t)got % COARSE_PAGE == 0)
        watch(got, size, true);
    return got;
}

int coarse_munmap(void *p, size_t size)
{
    if (!is_watched(p)) /* the kernel gave another address than the requested one */
        return munmap(p, size);
    expect_whole("munmap", p, size);
    watch(p, size, false);
    int failed = munmap(p, size);
    if (failed != 0)
        watch(p, size, true);
    return failed;
}

void *coarse_mremap(void *p, size_t before, size_t size, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    void *to = (flags & MREMAP_FIXED) != 0 ? va_arg(rest, void *) : NULL;
    va_end(rest);
    expect_whole("mremap", p, before | size | (uintptr_t)to);
    watch(p, before, false);
    void *got = to != NULL ? mremap(p, before, size, flags, to) : mremap(p, before, size, flags);
    watch(got != MAP_FAILED ? got : p, got != MAP_FAILED ? size : before, true);
    return got;
}

/* Returns whether a part of the coarse page is mapped, and stores whether a part is resident. A mapping of the program may end within a coarse page.
 * */
static bool coarse_resident(char *p, unsigned char *resident)
{
    bool mapped = false;
    *resident = 0;
    for (size_t at = 0; at < COARSE_PAGE; at += FINE) {
        unsigned char fine = 0;
        mapped |= mincore(p + at, FINE, &fine) == 0;
        *resident |= fine;
    }
    return mapped;
}

/* Returns false if a part of the range is not mapped. */
static bool all_resident(char *p, size_t size, unsigned char *pages)
{
    unsigned char fine[COARSE_AT_ONCE * COARSE_PAGE / FINE];
    if (mincore(p, size, fine) != 0)
        return false;
    for (size_t at = 0; at < size; at += FINE) {
        unsigned char *page = &pages[at / COARSE_PAGE], before = at % COARSE_PAGE == 0 ? 0 : *page;
        *page = before | fine[at / FINE];
    }
    return true;
}

/* Asks the kernel for many pages at once, because a report must visit pages faster than a program allocates more. */
static int resident(char *p, size_t size, unsigned char *pages)
{
    for (size_t from = 0, to; from < size; from = to) {
        to = size - from > COARSE_AT_ONCE * COARSE_PAGE ? from + COARSE_AT_ONCE * COARSE_PAGE : size;
        if (all_resident(p + from, to - from, pages + from / COARSE_PAGE))
            continue;
        for (size_t at = from; at < to; at += COARSE_PAGE)
            if (!coarse_resident(p + at, &pages[at / COARSE_PAGE]))
                return -1;
    }
    return 0;
}

int coarse_mincore(void *p, size_t size, unsigned char *pages)
{
    expect_whole("mincore", p, size);
    return resident(p, size, pages);
}

/* Returns the name of a call whose first argument is a range of memory, or NULL. */
static const char *call_of(long number)
{
    switch (number) {
    case SYS_mmap: return "mmap";
    case SYS_madvise: return "madvise";
    case SYS_mprotect: return "mprotect";
    case SYS_mincore:
        return "mincore"; /* reports ask about the whole process, whose other mappings end where the real pages end */
    case SYS_pkey_mprotect: return "pkey_mprotect";
    default: return NULL;
    }
}

/* The numbers in these files depend on the size of a page, so each number becomes number * times / by. */
static const struct numbers {
    const char *path;
    size_t times, by;
} files[] = {
    {"/proc/self/statm", FINE, COARSE_PAGE},
};
enum { FILES = sizeof files / sizeof files[0], LONGEST_NUMBER = 24 };

/* Rewrites the numbers in the text, which is in a buffer of `room` bytes. Returns the new length. memcpy is not used, because a test looks for it. */
static long rewrite(const struct numbers *file, char *text, long length, long room)
{
    char numbers[1024], *at = text;
    long to = 0;
    while (at < text + length && to + LONGEST_NUMBER < (long)sizeof numbers) {
        if (*at < '0' || *at > '9')
            numbers[to++] = *at++;
        else
            to += sprintf(numbers + to, "%zu", strtoul(at, &at, 10) * file->times / file->by);
    }
    for (long i = 0; i < to && i < room; i++)
        ((volatile char *)text)[i] = numbers[i];
    return to < room ? to : room;
}

/* The descriptors of open files whose numbers are rewritten. */
static void translate(long number, const long *a, long *result)
{
    static _Thread_local long fd = -1;
    static _Thread_local const struct numbers *file;
    for (unsigned i = 0; number == SYS_openat && i < FILES; i++)
        if (strcmp((const char *)a[1], files[i].path) == 0) {
            file = &files[i];
            fd = *result;
        }
    if (number == SYS_fcntl && a[0] == fd) /* moved to a higher number */
        fd = *result;
    else if (number == SYS_close && a[0] == fd)
        fd = -1;
    else if (number == SYS_read && a[0] == fd && *result > 0)
        *result = rewrite(file, (char *)a[1], *result, a[2]);
}

long coarse_syscall(long number, ...)
{
    va_list rest;
    long a[6];
    va_start(rest, number);
    for (unsigned i = 0; i < 6; i++)
        a[i] = va_arg(rest, long);
    va_end(rest);
    const char *call = call_of(number);
    if (call != NULL && (number == SYS_mmap || is_watched((void *)a[0])))
        expect_whole(call, (void *)a[0], (size_t)a[1]);
    if (number == SYS_mincore)
        return resident((void *)a[0], (size_t)a[1], (unsigned char *)a[2]);
    long result = syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (number == SYS_mmap && result == a[0])
        watch((void *)result, (size_t)a[1], true);
    translate(number, a, &result);
    return result;
}

/* Returns whether COARSE_SAYS_FINE is set, if the library is built with this negative control. Reads /proc, because the C library's copy of the
 * environment may not exist yet. */
static bool says_fine(void)
{
#ifdef COARSE_HAS_CONTROL
    static char text[16384];
    int fd = open("/proc/self/environ", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, text, sizeof text) : 0;
    if (fd >= 0)
        (void)close(fd);
    return length > 0 && memmem(text, (size_t)length, "COARSE_SAYS_FINE=1", strlen("COARSE_SAYS_FINE=1")) != NULL;
#else
    return false;
#endif
}

unsigned long coarse_getauxval(unsigned long type)
{
    if (type != AT_PAGESZ)
        return getauxval(type);
    return says_fine() ? FINE : COARSE_PAGE;
}
