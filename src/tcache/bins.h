/* Bins are arrays of free blocks. A thread has one bin for each size class, and the hit path uses them. These functions enlarge, fill and empty bins.
 * Owns       This file owns the arrays and capacities of bins. The capacity of a bin is the number of blocks for which its array has room.
 * Threads    Only the cache's own thread calls these functions. */
#ifndef HK_BINS_H
#define HK_BINS_H

#include "tcache/layout.h"

extern uint64_t hk_bins_random; /* seed for shuffling the blocks of each fill; set at the start; 0: no shuffling */

/* Enlarges a bin. Returns false if the bin has the largest capacity of its class, the budget is used up, or memory is refused. */
bool hk_bin_grow(struct hk_tcache *cache, unsigned class);
/* Called when a bin runs empty or full. Enlarges the bin if it has served at most four times its capacity since the last call. */
bool hk_bin_grow_if_small(struct hk_tcache *cache, unsigned class);
/* Fills an empty bin with a magazine of the depot. If the depot has none that fits, takes blocks from the commons or the thread's slabs. Returns the
 * number of blocks, or 0 if memory is refused. */
size_t hk_bin_fill(struct hk_tcache *cache, unsigned class);
/* Moves the n oldest blocks of a bin to the depot if the bin has its largest capacity and the depot accepts the blocks. Otherwise returns these
 * blocks to their slabs. */
void hk_bin_flush(struct hk_tcache *cache, unsigned class, size_t n);
/* Returns all blocks of a bin to their slabs. */
void hk_bin_empty(struct hk_tcache *cache, unsigned class);
/* Returns the byte budget of a thread, which limits the blocks that its bins can hold. The budget grows with the resident heap per thread. */
size_t hk_bins_budget(void);
void hk_bins_reset(struct hk_tcache *cache);
/* Returns all blocks of the bins and the depot to their slabs, and frees the arrays of the bins. */
void hk_bins_empty(struct hk_tcache *cache);
/* Called at each epoch. Empties the bins that have served no block since the last epoch. If such a bin is already empty, frees its array. */
void hk_bins_flush_idle(struct hk_tcache *cache);

#endif
