/* Next: the functions of the allocator below, found by dlsym; and a small arena for calls that come before they are found. */
#ifndef REC_NEXT_H
#define REC_NEXT_H

#include <stdbool.h>
#include <stddef.h>

struct rec_next {
    void *(*malloc)(size_t);
    void (*free)(void *);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*memalign)(size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
    size_t (*usable)(void *);
    void (*leave)(int); /* _exit */
};

extern struct rec_next rec_next;
extern bool rec_ready; /* rec_next is complete, and thread-local storage may be used */

/* Finds the functions; false while the dynamic loader has not relocated this library, or while a call is under way that finds them. */
bool rec_find_next(void);
/* A C++ operator of the allocator below or of the C++ library, by its mangled name; NULL without one. */
void *rec_find_operator(const char *name);

/* The early arena: zeroed, aligned to 16, never given back. NULL when it is full. */
void *rec_early_alloc(size_t size, size_t align);
bool rec_is_early(const void *block);
size_t rec_early_size(const void *block);

#endif
