/* Bins: arrays of ready blocks: how large they may be, how they are filled and emptied.
 * Owns       the capacities: one less than a power of two, grown where misses and overflows are, within the thread's budget.
 * Threads    the cache's own. */
#ifndef HK_BINS_H
#define HK_BINS_H

#include "tcache/tcache.h"

HK_INLINE size_t hk_bin_items(const struct hk_bin *bin) { return (size_t)(bin->top - bin->base); }
HK_INLINE size_t hk_bin_capacity(const struct hk_bin *bin) { return (size_t)(bin->limit - bin->base); }

/* Points a bin at nothing: no array, no items. */
void hk_bin_reset(struct hk_bin *bin);

/* More room, if class and budget allow and memory is granted. */
bool hk_bin_grow(struct hk_tcache *cache, unsigned class);
/* Frees the array of an empty bin. */
void hk_bin_drop(struct hk_tcache *cache, unsigned class);

/* Fills an empty bin from the depot, else from the owner's slabs; the number of blocks, 0 if memory is refused. */
size_t hk_bin_fill(struct hk_tcache *cache, unsigned class);
/* Takes the n oldest blocks out: of a bin that cannot grow into the depot, else back. */
void hk_bin_flush(struct hk_tcache *cache, unsigned class, size_t n);
/* A bin that runs empty or over again after a few times its capacity is too small for what the program does. Notes the turn. */
bool hk_bin_too_small(struct hk_tcache *cache, unsigned class);
/* Bytes that the bins of one thread may hold. It grows with the heap: a thread that deals in large blocks needs more than a few of each. */
size_t hk_bins_budget(void);
void hk_bins_reset(struct hk_tcache *cache);
/* Flushes all bins and the depot. */
void hk_bins_empty(struct hk_tcache *cache);
/* Flushes the bins that nothing was served from since the last epoch; frees the array of those that were empty then. */
void hk_bins_flush_idle(struct hk_tcache *cache);
/* Gives all blocks back. */
void hk_bin_empty(struct hk_tcache *cache, unsigned class);


#endif
