/* Large: blocks of more than 1 MiB, or aligned to more than 64 KiB. Each has a mapping of its own, cached for reuse when it is freed.
 *
 *   free -> cached, newest first -> alloc: the nearest in size       idle, or over the budget -> unmapped
 *   A mapping may be longer than its block by the factor large_fit. The rest is slack, into which realloc grows, and which a purge cuts off.
 *
 * Owns       the calls of other rooms: allocate, free, resize. The state: large_state.h; the cache: large_cache.h; mappings: large_mapping.c.
 * Invariant  only the first slice of a large block has a page map entry (owner nobody, class large). A mapping has at least 64 KiB, so that
 *            no two blocks begin in one slice.
 * Threads    any (one lock). Mapping and unmapping happen outside the lock. */
#ifndef HK_LARGE_H
#define HK_LARGE_H

#include "large/large_cache.h"
#include "span/footprint.h"

/* Returns a block, or NULL if memory is refused. Sets *zeroed to true if all its bytes are zero. `align` is a power of two. */
void *hk_large_alloc(size_t size, size_t align, bool *zeroed);
/* Ends the program, and names the call, unless a large block in use begins at `block`. The functions below check the same for free or realloc. */
void hk_large_check(enum hk_call call, const void *block);
void hk_large_free(void *block);
/* Frees a block that will be reused, so that no purge by age unmaps it before until_ms. */
void hk_large_keep(void *block, uint64_t until_ms);
/* Frees a block that will not be reused, and unmaps it at once. */
void hk_large_drop(void *block);
/* Zeroes a block that was used before and returns it (see large_zero.c). The block may also lie in a slab. */
void *hk_large_zero(void *block, size_t bytes);
/* Resizes the block in place or by moving its pages, and returns it. If neither is possible, returns NULL and leaves the block unchanged. */
void *hk_large_resize(void *block, size_t size);

/* Returns the bytes that a block of this size has, which are whole pages and at least a slice. */
HK_INLINE size_t hk_large_bytes_for(size_t size) { return hk_in_system_pages(hk_max(size, HK_SLICE)); }

/* Returns true if the address lies anywhere in the mapping of a large block. */
bool hk_large_holds(const void *p);

enum hk_large_use { HK_LARGE_NONE, HK_LARGE_IN_USE, HK_LARGE_FREED };

/* The mapping of a large block, or the gap between two of them. */
struct hk_large_extent {
    enum hk_large_use use;
    uintptr_t start;
    size_t size;      /* the requested bytes if it is a block */
    uint64_t version; /* all fields are right while hk_large.xversion is the same */
};
/* Finds the extent that contains the address. Never waits for the lock, but returns false if another thread holds it. */
bool hk_large_find(uintptr_t address, struct hk_large_extent *found);

/* Returns the mapped bytes, which are in use, slack or cached. */
HK_INLINE size_t hk_large_mapped(void) { return hk_load(hk_footprint.xbig); }

#endif
