/* Next: finds the functions of the allocator below, which is the allocator to which the recorder passes calls on. Until then, calls are served from a
 * small static arena, the early arena. */
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
extern bool rec_ready; /* true once rec_next is complete, and thread-local storage can be used */

/* Fills in rec_next. Returns false if there is no allocator below, if the loader has not relocated this library yet, or if a call is under way. */
bool rec_find_next(void);
/* Returns the C++ operator with this mangled name from the allocator below or from the C++ library. Returns NULL if there is none. */
void *rec_find_operator(const char *name);

/* Returns a zeroed block of the early arena, aligned to at least 16 bytes, or NULL if the arena is full. The block is never reused. */
void *rec_early_alloc(size_t size, size_t align);
bool rec_is_early(const void *block);
size_t rec_early_size(const void *block);

#endif
