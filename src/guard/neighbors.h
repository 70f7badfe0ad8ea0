/* Neighbors: a free verifies what lies within 32 bytes of the block: free blocks there are zero, the canary before it is whole.
 * Threads  any: other threads may give out and free the neighbors meanwhile. */
#ifndef HK_NEIGHBORS_H
#define HK_NEIGHBORS_H

#include "base/quanta.h"
#include "guard/states.h"
#include "span/descriptor.h"

enum { HK_NEIGHBORHOOD = 32 };

/* `at` is a multiple of 16, bytes too. */
HK_INLINE bool hk_is_zero(const char *at, size_t bytes)
{
    const hk_quantum *quanta = (const void *)at;
    hk_quantum any = quanta[0];
    for (size_t i = 1; i < bytes / HK_QUANTUM; i++)
        any |= quanta[i];
    return (any[0] | any[1]) == 0;
}

/* Requires a live block of a slab without lodgers, or a big block. */
void hk_neighbors_check(enum hk_call call, const char *block, size_t bytes, hk_state_byte *state);

#endif
