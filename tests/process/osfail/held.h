/* Declares blocks with known contents, and checks of each allocation. An allocation must return a block as requested, or return NULL with ENOMEM
 * and change nothing. */
#ifndef TEST_OSFAIL_HELD_H
#define TEST_OSFAIL_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct held {
    void *block; /* NULL if there is none */
    size_t size;
    uint64_t seed;
};

enum held_call { HELD_MALLOC, HELD_CALLOC, HELD_MEMALIGN, HELD_POSIX_MEMALIGN, HELD_VALLOC, HELD_PVALLOC };

/* true while the system refuses nothing, so that a NULL is a failure of the test */
extern bool held_healthy;

/* Allocates a block, and returns whether it succeeded. `align` is the alignment for memalign and posix_memalign, and 16 otherwise. */
bool held_get(struct held *held, enum held_call call, size_t align, size_t size);
bool held_resize(struct held *held, size_t size);
void held_check(const struct held *held);
void held_put(struct held *held);

#endif
