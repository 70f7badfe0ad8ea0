/* Neighbors: a free verifies what lies within 32 bytes of the block: free blocks there are zero, the canary before it is whole.
 * Threads  any: other threads may give out and free the neighbors meanwhile. */
#ifndef HK_NEIGHBORS_H
#define HK_NEIGHBORS_H

#include "base/inline_copy.h"
#include "guard/states.h"
#include "span/descriptor.h"

enum { HK_NEIGHBORHOOD = 32 };

/* Requires a live block of a slab without joined blocks, or a large block. */
void hk_neighbors_check(enum hk_call call, const char *block, size_t bytes, hk_state_byte *state);

#endif
