/* Declares what the programs in this folder share. Each program makes one mistake, and would end with status 0 if HAKMEM did not report it. */
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

/* These are operators of C++ by their mangled names. */
void *_Znwm(size_t size);
void *_Znam(size_t size);
void *_ZnwmSt11align_val_t(size_t size, size_t align);
void _ZdlPv(void *p);
void _ZdlPvm(void *p, size_t size);
void _ZdaPvm(void *p, size_t size);
void _ZdlPvmSt11align_val_t(void *p, size_t size, size_t align);
/* These functions of C23 are weak because the C library may not have them. The preloaded library has them. */
void free_sized(void *p, size_t size) __attribute__((weak));
void free_aligned_sized(void *p, size_t alignment, size_t size) __attribute__((weak));

enum { KIB = 1024, MIB = 1024 * 1024 };

/* Prints the address that the mistake is about, which the runner compares, and hides the pointer from the compiler. */
static inline void *bad(void *p)
{
    dprintf(STDOUT_FILENO, "bad 0x%jx\n", (uintmax_t)(uintptr_t)p);
    __asm__ volatile("" : "+r"(p));
    return p;
}

static inline void *at(uintptr_t address) { return (void *)address; }

static inline void *inside(void *p, size_t offset) { return (char *)p + offset; }

#endif
