/* Declares a table of the functions of malloc's family. The functions are found by name at run time.
 *
 * One table has the names of every libc. Another has the same functions with the prefix hak_. If the process does not have a function, its pointer
 * is NULL, so a caller checks the pointer first. glibc 2.36, for example, has no free_sized. */
#ifndef TEST_ABI_ENTRY_POINTS_H
#define TEST_ABI_ENTRY_POINTS_H

#include <stdbool.h>
#include <stddef.h>

struct entry_points {
    const char *prefix;
    void *(*malloc)(size_t size);
    void *(*calloc)(size_t count, size_t size);
    void *(*realloc)(void *p, size_t size);
    void *(*reallocarray)(void *p, size_t count, size_t size);
    void *(*aligned_alloc)(size_t alignment, size_t size);
    void *(*memalign)(size_t alignment, size_t size);
    int (*posix_memalign)(void **out, size_t alignment, size_t size);
    void *(*valloc)(size_t size);
    void *(*pvalloc)(size_t size);
    size_t (*usable_size)(void *p);
    void (*free)(void *p);
    void (*free_sized)(void *p, size_t size);
    void (*free_aligned_sized)(void *p, size_t alignment, size_t size);
};

/* Looks up each function by its name with this prefix. Returns false if the process has no malloc with this prefix. */
bool entry_points_find(struct entry_points *table, const char *prefix);

#endif
