/* Next: finds the functions of the allocator below, which is the allocator to which the recorder passes calls on. Until the functions are found,
 * calls are served from a small static arena, the early arena. */
#ifndef REC_NEXT_H
#define REC_NEXT_H

#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

/* The functions to which calls are passed on. If the allocator below lacks one, the function of the C library is used, if there is one. */
#define REC_FUNCTIONS(F)                                                                                               \
    F(malloc)                                                                                                          \
    F(free)                                                                                                            \
    F(calloc)                                                                                                          \
    F(realloc) F(memalign) F(aligned_alloc) F(posix_memalign) F(valloc) F(pvalloc) F(malloc_usable_size) F(_exit)

struct rec_next {
#define REC_MEMBER(name) __typeof__(name) *name;
    REC_FUNCTIONS(REC_MEMBER)
};

extern struct rec_next rec_next;
extern bool rec_ready; /* true once rec_next is complete, and thread-local storage can be used */

/* Fills in rec_next. Returns false if there is no allocator below, if the loader has not relocated this library, or if rec_find_next() is running. */
bool rec_find_next(void);
/* Returns the C++ operator with this mangled name from the allocator below or from the C++ library. Returns NULL if there is none. */
void *rec_find_operator(const char *name);

/* Returns a zeroed block of the early arena, aligned to at least 16 bytes, or NULL if the arena is full. The block is never reused. */
void *rec_early_alloc(size_t size, size_t align);
bool rec_is_early(const void *block);
size_t rec_early_size(const void *block);

#endif
