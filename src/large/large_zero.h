/* Large zero: makes a long block that was used before read as zeros, at no more than the cost of fresh pages.
 *
 *   resident pages that were used   -> overwritten: a slice costs less than one page fault
 *   all others                      -> returned to the system: the next owner pays for what it touches
 *
 * Owns       nothing.
 * Invariant  a page that the system does not show may have been swapped out, so it is returned as well. No page of slack that may be
 *            cut off, and be another mapping by now, changes.
 * Threads    the one that has just been given the block. */
#ifndef HK_LARGE_ZERO_H
#define HK_LARGE_ZERO_H

#include <stddef.h>

/* Zeroes the block, also one in a slab, and returns it. */
void *hk_large_zero(void *block, size_t bytes);

#endif
