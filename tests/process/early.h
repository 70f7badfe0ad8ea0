/* Declares helpers of tests that use the heap before a process's constructors have run, or after its destructors. */
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

/* These functions are in early.c, so that the compiler does not inline them. Some callers run so early that only plain calls work. */
void early_allocate(struct early_blocks *blocks); /* allocates with each function, and fills each block */
bool early_check_and_free(struct early_blocks *blocks);

#endif
