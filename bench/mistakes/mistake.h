/* mistake: what the kinds of mistakes share. A kind is a function mistake_<name>(); mistakes.def lists them. */
#ifndef BENCH_MISTAKE_H
#define BENCH_MISTAKE_H

#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { KIB = 1024, MIB = 1024 * 1024, PAGE = 4096, SECRET = 0xd5, NEIGHBOR = 0xb7, OTHER_CALLS = 1000 };

#define MISTAKE(name, family, rule, sizes, ways, title) void mistake_##name(size_t size);
#include "mistakes.def"
#undef MISTAKE

/* C++'s operators, by their names in C. */
void *_Znwm(size_t size);
void *_Znam(size_t size);
void *_ZnwmSt11align_val_t(size_t size, size_t alignment);
void _ZdlPv(void *p);
void _ZdaPv(void *p);
void _ZdlPvm(void *p, size_t size);
void _ZdlPvSt11align_val_t(void *p, size_t alignment);
void _ZdlPvmSt11align_val_t(void *p, size_t size, size_t alignment);

/* What a wrong step is made on. */
typedef struct deed {
    unsigned char *p;
    size_t size;
    size_t distance;
    void *result;
    size_t seen;
} deed;

typedef void step(deed *d);

/* The wrong step, in the way that the command line asks for; then says that it was made. With --sound the right one
 * takes its place, or none: the rest of the program is the same, and must end without a complaint. */
void make_or(step *wrong, step *right, deed *d);
static inline void make(step *wrong, deed *d) { make_or(wrong, NULL, d); }

/* Says whether the mistake had its effect. */
void effect(bool had);

/* Ends the program: this allocator has no such call. */
__attribute__((noreturn)) void not_offered(void);

/* Is the mistake left out? */
bool sound(void);

/* The compiler does not know where it came from. */
static inline void *hidden(void *p)
{
    __asm__ volatile("" : "+r"(p) : : "memory");
    return p;
}

static inline void *at(uintptr_t address) { return hidden((void *)address); }

/* Whole small blocks; the first and the last bytes of large ones. */
void fill(void *p, size_t size, int byte);

/* A block of that size, or the end of the program. */
void *take(size_t size);

/* Calls of other sizes than this. */
void other_calls(size_t size, int count);

/* The blocks that the program holds. */
void hold(void *p, size_t size, bool of_heap);
void forget(void *p);
void hold_many(size_t size);                   /* as many as a program may ask for next */
unsigned char *hold_among_others(size_t size); /* a new block, full, between full neighbors */
bool overlapping(void);
size_t held_bytes(int byte); /* how many of the first bytes of all have this value */
bool held_changed(int byte); /* has one of the blocks that were filled with it another byte? */
void fill_held(int byte);
bool held_pointers(void);       /* does one hold an address that is near all of them? */
void release(void);             /* frees each once */
void release_every_other(void); /* so that what is free has neighbors that are not */

/* What a program does next: blocks of the size are allocated, freed, and others in between. True: two overlapped. */
bool go_on(size_t size);

#endif
