/* early: the heap before a process's constructors have run, and after its destructors. */
#ifndef TEST_PROCESS_EARLY_H
#define TEST_PROCESS_EARLY_H

#include <stdbool.h>
#include <stddef.h>

enum { EARLY_BLOCKS = 64 };

struct early_blocks {
    void *block[EARLY_BLOCKS];
    size_t size[EARLY_BLOCKS];
    bool used;
};

/* Each in a file of its own, so that no call is inlined into code that runs too early for anything but plain calls. */
void early_allocate(struct early_blocks *blocks); /* malloc, calloc, realloc, memalign, free; then fills the rest */
bool early_check_and_free(struct early_blocks *blocks);

#endif
