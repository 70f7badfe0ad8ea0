/* Declares the functions of own_heap.c, a library with an allocator of its own, as its program sees them. */
#ifndef TEST_PROCESS_OWN_HEAP_H
#define TEST_PROCESS_OWN_HEAP_H

#include <stddef.h>

struct own_heap {
    int (*forms_agree)(void);    /* checks that the library's own functions allocate and free in one heap */
    int (*library_agrees)(void); /* checks that the library can free blocks of the C library */
    void *(*give)(size_t size);  /* allocates in the heap that the library shares with its program */
    void (*take)(void *p);
    const char *(*file_of_give)(void);
};

#endif
