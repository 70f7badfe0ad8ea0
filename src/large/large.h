/* Large blocks have more than 1 MiB (128 KiB if address space is scarce), or are aligned to more than 64 KiB. Each has a mapping of its own.
 *
 *   Freed blocks are cached. A request takes the cached block nearest in size. Blocks that are old or over the budget are unmapped, oldest first.
 *   The option large_fit limits the slack, which is the end of a mapping behind its block. A realloc may use the slack, and a purge cuts it off.
 *
 * Owns       This file allocates, frees and resizes large blocks. Their state is in large_state.h, their cache in large_cache.h.
 * Invariant  Only the first slice of a large block has a page map entry (owner nobody, class large). A mapping has at least 64 KiB, so that
 *            no two blocks begin in one slice.
 * Threads    Any thread may call these functions. One lock protects the state. Mapping and unmapping happen outside the lock. */
#pragma once

#include "large/large_cache.h"
#include "span/footprint.h"

/* Returns a block, or NULL if memory is refused. Sets *zeroed to true only if all bytes of the block are zero. `align` is a power of two. */
void *hk_large_alloc(size_t size, size_t align, bool *zeroed);
/* Ends the program with a message that names `call` if no large block in use begins at `block`. Frees and resizes make the same check. */
void hk_large_check(enum hk_call call, const void *block);
/* Makes the same check without the lock, and returns the block's descriptor. Precondition: no other thread frees the block now. */
struct hk_large_block *hk_large_checked(enum hk_call call, const void *block);
void hk_large_free(void *block);
/* Frees a block that is expected to be reused. Purges by age do not unmap the block before the time until_ms. */
void hk_large_keep(void *block, uint64_t until_ms);
/* Frees a block that must not be reused, or is not expected to be reused. Unmaps the block instead of caching it. */
void hk_large_drop(void *block);
/* Zeroes a block that was used before and returns it (see large_zero.c). The block may also lie in a slab. */
void *hk_large_zero(void *block, size_t bytes);
/* Resizes the block in place or by moving its pages, and returns it. If neither is possible, returns NULL and leaves the block unchanged. */
void *hk_large_resize(void *block, size_t size);

HK_INLINE size_t hk_large_bytes_for(size_t size) { return hk_in_system_pages(hk_max(size, HK_SLICE)); }

/* Returns true if the address lies anywhere in the mapping of a large block. */
bool hk_large_holds(const void *p);

enum hk_large_use { HK_LARGE_NONE, HK_LARGE_IN_USE, HK_LARGE_FREED };

/* The mapping of a large block, or the gap between two of them. */
struct hk_large_extent {
    enum hk_large_use use;
    uintptr_t start;
    size_t size;      /* requested bytes of a block, or all bytes of a gap */
    uint64_t version; /* the fields are right while hk_large.xversion has this value */
};
/* Finds the extent that contains the address. Never waits for the lock, but returns false if another thread holds it. */
bool hk_large_find(uintptr_t address, struct hk_large_extent *found);

/* Returns the mapped bytes of all large blocks, in use or cached, including slack. */
HK_INLINE size_t hk_large_mapped(void) { return hk_load(hk_footprint.xbig); }
