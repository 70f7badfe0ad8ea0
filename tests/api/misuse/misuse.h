/* misuse: the common parts of these programs. Each makes one mistake and would end with status 0 if it were not reported. */
#ifndef TEST_MISUSE_H
#define TEST_MISUSE_H

#include <malloc.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* C++'s operators, by their names in C. */
void *_Znwm(size_t size);
void *_Znam(size_t size);
void *_ZnwmSt11align_val_t(size_t size, size_t align);
void _ZdlPv(void *p);
void _ZdlPvm(void *p, size_t size);
void _ZdaPvm(void *p, size_t size);
void _ZdlPvmSt11align_val_t(void *p, size_t size, size_t align);
/* C23's, which the C library may not have yet: the preloaded library has them. */
void free_sized(void *p, size_t size) __attribute__((weak));
void free_aligned_sized(void *p, size_t alignment, size_t size) __attribute__((weak));

enum { KIB = 1024, MIB = 1024 * 1024 };

/* Says on stdout which address the mistake is about, for the runner to compare, and hides it from the compiler. */
static inline void *bad(void *p)
{
    dprintf(STDOUT_FILENO, "bad 0x%jx\n", (uintmax_t)(uintptr_t)p);
    __asm__ volatile("" : "+r"(p));
    return p;
}

static inline void *at(uintptr_t address) { return (void *)address; }

static inline void *inside(void *p, size_t offset) { return (char *)p + offset; }

#endif
