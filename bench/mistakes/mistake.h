/* mistake: declares the common parts of all kinds of mistakes. Each kind in mistakes.def has a function mistake_<name>(). */
#ifndef BENCH_MISTAKE_H
#define BENCH_MISTAKE_H

#include "../bench_common.h"

#include <malloc.h>

enum { KIB = 1024, MIB = 1024 * 1024, PAGE = 4096, SECRET = 0xd5, NEIGHBOR = 0xb7, OTHER_CALLS = 1000 };

#define MISTAKE(name, family, rule, sizes, ways, title) void mistake_##name(size_t size);
#include "mistakes.def"
#undef MISTAKE

/* The C++ operators new and delete, declared by their mangled names. */
void *_Znwm(size_t size);
void *_Znam(size_t size);
void *_ZnwmSt11align_val_t(size_t size, size_t alignment);
void _ZdlPv(void *p);
void _ZdaPv(void *p);
void _ZdlPvm(void *p, size_t size);
void _ZdlPvSt11align_val_t(void *p, size_t alignment);
void _ZdlPvmSt11align_val_t(void *p, size_t size, size_t alignment);

/* A deed has the block that a step uses, the numbers of the step, and the result of the step. */
typedef struct deed {
    unsigned char *p;
    size_t size, distance, seen;
    void *result;
} deed;

typedef void step(deed *d);

/* Makes the wrong step as the command line asks, and prints "made". With --sound, makes the right step instead, or no step if `right` is NULL. */
void make_or(step *wrong, step *right, deed *d);
static inline void make(step *wrong, deed *d) { make_or(wrong, NULL, d); }

/* Prints whether the mistake had its effect. */
void effect(bool had);

/* Ends the program because the allocator does not have the function that the mistake needs. */
__attribute__((noreturn)) void not_offered(void);

/* Returns true if the command line asks for a program without the mistake. */
bool sound(void);

/* free_it() passes the address at d->distance from the block to free. delete_it() passes the block itself to delete. */
void free_it(deed *d);
void delete_it(deed *d);

/* Returns the pointer unchanged. The compiler no longer knows where the pointer comes from, so it cannot remove the mistake or warn about it. */
static inline void *hidden(void *p)
{
    __asm__ volatile("" : "+r"(p) : : "memory");
    return p;
}

/* Fills a small block as a whole, and only the first and the last bytes of a large block. */
void fill(void *p, size_t size, int byte);

/* Returns a block of the size, or ends the program if memory is refused. */
void *take(size_t size);

/* Allocates and frees `count` blocks of sizes that are not in the size class of `size`. */
void other_calls(size_t size, int count);

/* Adds a block to the list of held blocks. If `of_heap` is false, the program never frees the block. */
void hold(void *p, size_t size, bool of_heap);
void forget(void *p);
void hold_many(size_t size);                   /* allocates and holds as many blocks as a program may need */
unsigned char *hold_among_others(size_t size); /* returns a filled block among filled neighbors */
void *move_held(void *p, size_t size);         /* enlarges a held block with realloc, and returns its old address */
bool overlapping(void);
size_t held_bytes(int byte); /* counts the filled bytes of held blocks that have this value */
bool held_changed(int byte); /* true if a filled byte of a held block has another value */
void fill_held(int byte);
bool held_pointers(void);       /* true if a held block contains an address near held blocks */
void release(void);             /* frees all held blocks, each once */
void release_every_other(void); /* frees every other one, so that free blocks have live neighbors */

/* Continues as a program would: allocates and frees many blocks of this size and of other sizes. Returns true if two live blocks overlapped. */
bool go_on(size_t size);

#endif
