/* Declares the functions of own_heap.c, a library with an allocator of its own, as its program sees them. */
#ifndef TEST_PROCESS_OWN_HEAP_H
#define TEST_PROCESS_OWN_HEAP_H

#include <stddef.h>

struct own_heap {
    int (*forms_agree)(void);    /* checks its own allocating and freeing functions */
    int (*library_agrees)(void); /* frees blocks of the C library */
    void *(*give)(size_t size);  /* from the heap that it shares with its program */
    void (*take)(void *p);
    const char *(*file_of_give)(void);
};

#endif
