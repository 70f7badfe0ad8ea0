/* Examine: ends the program where a copy leaves its block, or touches free memory of the heap.
 *
 *   more bytes than hk_bounds_room() -> hk_block_bounds() -> well after all (a joined block, a large block, no block), or one line and abort()
 *
 * Owns       the lines.
 * Invariant  a range of no bytes is well, wherever it begins.
 * Threads    any, also in signal handlers.
 * Never      allocates or waits for a lock. */
#ifndef HK_EXAMINE_H
#define HK_EXAMINE_H

#include "guard/bounds.h"

enum hk_copying { HK_WRITES, HK_READS };

/* `call` is the name of the exported function in the line. */
void hk_examine(const char *call, enum hk_copying access, const void *at, size_t bytes);
/* The bytes from `at` to the end of its block; SIZE_MAX where that is unknown. Ends the program where none can be read. */
size_t hk_examine_room(const char *call, const void *at);

HK_INLINE bool hk_may_copy(const void *to, const void *from, size_t bytes)
{
    return bytes <= hk_bounds_room((uintptr_t)to) && bytes <= hk_bounds_room((uintptr_t)from);
}

#endif
