/* Bins: arrays of ready blocks: how large they may be, how they are filled and emptied.
 * Owns       the capacities: one less than a power of two, grown where misses and overflows are, within the thread's budget.
 * Threads    the cache's own. */
#ifndef HK_BINS_H
#define HK_BINS_H

#include "front/cache.h"

HK_INLINE size_t hk_bin_items(const struct hk_bin *bin) { return (size_t)(bin->top - bin->base); }
HK_INLINE size_t hk_bin_capacity(const struct hk_bin *bin) { return (size_t)(bin->limit - bin->base); }

/* Points a bin at nothing: no array, no items. */
void hk_bin_reset(struct hk_bin *bin);

/* More room, if class and budget allow and memory is granted. */
bool hk_bin_grow(struct hk_cache *cache, unsigned class);
/* Frees the array of an empty bin. */
void hk_bin_drop(struct hk_cache *cache, unsigned class);

/* Fills an empty bin from the depot, else from the owner's slabs; the number of blocks, 0 if memory is refused. */
size_t hk_bin_fill(struct hk_cache *cache, unsigned class);
/* Takes the n oldest blocks out: of a bin that cannot grow into the depot, else back. */
void hk_bin_shed(struct hk_cache *cache, unsigned class, size_t n);
/* Gives all blocks back. */
void hk_bin_empty(struct hk_cache *cache, unsigned class);

/* Gives blocks back to their slabs, or passes them on to whom these belong. */
void hk_give_back(struct hk_cache *cache, void *const *blocks, unsigned n);

#endif
