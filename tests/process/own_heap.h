/* own_heap: the exports of these tests' library with an allocator of its own (own_heap.c), as its program sees them. */
#ifndef TEST_PROCESS_OWN_HEAP_H
#define TEST_PROCESS_OWN_HEAP_H

#include <stddef.h>

struct own_heap {
    int (*forms_agree)(
        void); /* what each exported and each hidden form returned is its own, and each of them may end it */
    int (*library_agrees)(void); /* frees blocks that the C library allocated */
    void *(*give)(size_t size);  /* from the heap that it shares with its program */
    void (*take)(void *p);
    const char *(*file_of_give)(void);
};

#endif
