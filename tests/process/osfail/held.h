/* Held: blocks with known contents, and the rule for an allocation: success with all that was requested, or NULL and ENOMEM with
 * nothing changed. */
#ifndef TEST_OSFAIL_HELD_H
#define TEST_OSFAIL_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct held {
    void *block; /* NULL: none */
    size_t size;
    uint64_t seed;
};

enum held_call { HELD_MALLOC, HELD_CALLOC, HELD_MEMALIGN, HELD_POSIX_MEMALIGN, HELD_VALLOC, HELD_PVALLOC };

/* True while the system refuses nothing: then a NULL is a failure. */
extern bool held_healthy;

/* True if there is a block now. `align` is for the two memaligns; 16 elsewhere. */
bool held_get(struct held *held, enum held_call call, size_t align, size_t size);
bool held_resize(struct held *held, size_t size);
void held_check(const struct held *held);
void held_put(struct held *held);

#endif
