/* Sized: whether a size that the program names for a block can be that of the block. No correct program is refused:
 *
 *   sized delete   memory of operator new is never resized: its class is that of size and alignment; the plain form of an aligned block
 *                  passes. A lodger's class is not known exactly, and not compared. Sizes above 128 KiB may have had a mapping of their
 *                  own (address space was scarce), which has exactly the size in whole pages. The caller makes sure that the program
 *                  has not replaced operator new, whose blocks may have any size.
 *   free_sized     realloc keeps a block that is larger than the size, where it wastes less than half, or where no memory is left
 *                  to shrink it: only a size that is larger than the block is refused.
 *
 * Threads  that which has the block. */
#ifndef HK_SIZED_H
#define HK_SIZED_H

#include "span/descriptor.h"

/* False if the size cannot be that of a live block with this page map entry. `resizes`: realloc may have resized it. */
bool hk_sized_fits(const void *block, uint32_t entry, size_t size, bool resizes);
/* Fatal if the size cannot be that of a live block with this page map entry. */
void hk_sized_check(enum hk_call call, const void *block, uint32_t entry, size_t size);
/* The same for memory of an aligned operator new. Checks the pointer first, where it leads to a block of more than 32 KiB; all
 * other blocks pass. */
void hk_sized_check_aligned(const void *block, size_t size, size_t align);

#endif
