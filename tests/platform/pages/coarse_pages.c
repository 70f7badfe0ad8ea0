/* Simulates a system with larger pages on a system with pages of 4 KiB. The core's system calls come here (HakmemPages.cmake). For the core, the
 * system has pages of COARSE_PAGE bytes. The program ends if a larger page would not do what the core asked for:
 *
 *   mmap, munmap, mremap, madvise, mprotect or mincore with an address or a length that is not a multiple of COARSE_PAGE
 *
 * A real kernel rounds many of these lengths up, so a purge would remove the memory behind the range. Calls of the program itself are not checked,
 * because only the core's memory is watched, by a bit for each page. Any thread may call these functions. */
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

enum { FINE = 4096, ADDRESS_BITS = 47, FIXED_NOREPLACE = 0x100000 };
#define PAGES (((size_t)1 << ADDRESS_BITS) / COARSE_PAGE)

static _Atomic(_Atomic uint8_t *) watched;

static _Atomic uint8_t *watched_bits(void)
{
    _Atomic uint8_t *bits = atomic_load(&watched), *none = NULL;
    if (bits != NULL)
        return bits;
    bits = mmap(NULL, PAGES / 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bits == MAP_FAILED)
        abort();
    if (atomic_compare_exchange_strong(&watched, &none, bits))
        return bits;
    (void)munmap((void *)bits, PAGES / 8);
    return none;
}

static void watch(const void *p, size_t size, bool on)
{
    _Atomic uint8_t *bits = watched_bits();
    for (size_t page = (uintptr_t)p / COARSE_PAGE, end = page + size / COARSE_PAGE; page < end; page++) {
        uint8_t bit = (uint8_t)(1u << page % 8);
        if (on)
            atomic_fetch_or(&bits[page / 8], bit);
        else
            atomic_fetch_and(&bits[page / 8], (uint8_t)~bit);
    }
}

static bool is_watched(const void *p)
{
    size_t page = (uintptr_t)p / COARSE_PAGE;
    return page < PAGES && (atomic_load(&watched_bits()[page / 8]) >> page % 8 & 1) != 0;
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

static void *map_anywhere(size_t size, int protection, int flags, int fd, off_t offset)
{
    char *p = mmap(NULL, size + COARSE_PAGE, protection, flags, fd, offset);
    if (p == MAP_FAILED)
        return p;
    size_t before = -(uintptr_t)p % COARSE_PAGE;
    if (before > 0)
        (void)munmap(p, before);
    (void)munmap(p + before + size, COARSE_PAGE - before);
    return p + before;
}

void *coarse_mmap(void *p, size_t size, int protection, int flags, int fd, off_t offset)
{
    expect_whole("mmap", p, size);
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

static int coarse_mincore(void *p, size_t size, unsigned char *pages)
{
    if (is_watched(p)) /* reports look at the whole process, and other mappings end at real pages */
        expect_whole("mincore", p, size);
    for (size_t at = 0; at < size; at += COARSE_PAGE)
        if (!coarse_resident((char *)p + at, &pages[at / COARSE_PAGE]))
            return -1;
    return 0;
}

/* Returns the name of a call whose first argument is a range of memory, or NULL. */
static const char *call_of(long number)
{
    switch (number) {
    case SYS_mmap: return "mmap";
    case SYS_madvise: return "madvise";
    case SYS_mprotect: return "mprotect";
    case SYS_pkey_mprotect: return "pkey_mprotect";
    default: return NULL;
    }
}

long coarse_syscall(long number, ...)
{
    va_list rest;
    long a[6];
    va_start(rest, number);
    for (unsigned i = 0; i < 6; i++)
        a[i] = va_arg(rest, long);
    va_end(rest);
    if (number == SYS_mincore)
        return coarse_mincore((void *)a[0], (size_t)a[1], (unsigned char *)a[2]);
    const char *call = call_of(number);
    if (call != NULL && (number == SYS_mmap || is_watched((void *)a[0])))
        expect_whole(call, (void *)a[0], (size_t)a[1]);
    long result = syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (number == SYS_mmap && result == a[0])
        watch((void *)result, (size_t)a[1], true);
    return result;
}

/* Returns whether COARSE_SAYS_FINE is set, which is for the negative control. It reads /proc, because the C library's copy of the environment may not
 * exist yet. */
static bool says_fine(void)
{
    static char text[16384];
    int fd = open("/proc/self/environ", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, text, sizeof text) : 0;
    if (fd >= 0)
        (void)close(fd);
    return length > 0 && memmem(text, (size_t)length, "COARSE_SAYS_FINE=1", strlen("COARSE_SAYS_FINE=1")) != NULL;
}

unsigned long coarse_getauxval(unsigned long type)
{
    if (type != AT_PAGESZ)
        return getauxval(type);
    return says_fine() ? FINE : COARSE_PAGE;
}
