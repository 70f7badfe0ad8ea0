/* This file is linked into a program, which then has its own malloc, calloc, realloc and free. A preloaded library cannot replace these
 * functions. They never reuse memory. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 16, ARENA = 64 << 20 };

static _Alignas(ALIGN) unsigned char arena[ARENA];
static _Atomic size_t x_used;

/* The size is stored in front of the block. */
void *malloc(size_t size)
{
    size_t bytes = (size + 2 * ALIGN - 1) / ALIGN * ALIGN;
    if (size > ARENA) {
        return NULL;
    }
    size_t at = x_used;
    do {
        if (bytes > ARENA - at) {
            return NULL;
        }
    } while (!atomic_compare_exchange_weak(&x_used, &at, at + bytes));
    memcpy(arena + at, &size, sizeof size);
    return arena + at + ALIGN;
}

void *calloc(size_t count, size_t size)
{
    size_t bytes;
    /* New memory is zero. */
    return __builtin_mul_overflow(count, size, &bytes) ? NULL : malloc(bytes);
}

void *realloc(void *p, size_t size)
{
    size_t had = 0;
    char *moved = malloc(size);
    if (p) {
        memcpy(&had, (char *)p - ALIGN, sizeof had);
    }
    return moved && had ? memcpy(moved, p, had < size ? had : size) : moved;
}

void free(void *p) { (void)p; }
