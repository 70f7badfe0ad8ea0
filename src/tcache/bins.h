/* Bins are the arrays of free blocks that the hit path uses. These functions enlarge, fill and empty the bins.
 * Owns       This file owns the bins' arrays and capacities. A capacity is one less than a power of two. Within the thread's byte budget, the
 *            capacity of a bin grows if the bin often runs empty or full.
 * Threads    Only the cache's own thread calls these functions. */
#ifndef HK_BINS_H
#define HK_BINS_H

#include "tcache/layout.h"

extern uint64_t hk_bins_random; /* the seed of random fills, set at the start; 0: bins fill in order */

/* Enlarges the bin's array if the class, the budget and the memory allow it. Returns false if the array keeps its size. */
bool hk_bin_grow(struct hk_tcache *cache, unsigned class);
/* Enlarges the array if the bin has served at most four times its capacity since the last call. Called when the bin runs empty or full. */
bool hk_bin_grow_if_small(struct hk_tcache *cache, unsigned class);
/* Fills an empty bin from the depot or, if the depot has no blocks of the class, from the commons or the owner's slabs. Returns the number of blocks,
 * or 0 if memory is refused. */
size_t hk_bin_fill(struct hk_tcache *cache, unsigned class);
/* Moves the n oldest blocks of a bin to the depot if the bin has its largest capacity and the depot accepts the blocks. Otherwise moves the blocks to
 * their slabs. */
void hk_bin_flush(struct hk_tcache *cache, unsigned class, size_t n);
/* Moves all blocks of a bin to their slabs. */
void hk_bin_empty(struct hk_tcache *cache, unsigned class);
/* Returns the most bytes that one thread's bins may hold. The limit grows with the heap, because a large heap needs many blocks of each class. */
size_t hk_bins_budget(void);
void hk_bins_reset(struct hk_tcache *cache);
/* Flushes all bins and the depot, and frees the arrays of the bins. */
void hk_bins_empty(struct hk_tcache *cache);
/* Flushes the bins that have served no block since the last epoch, except held bins. If such a bin was empty already, frees its array. */
void hk_bins_flush_idle(struct hk_tcache *cache);

#endif
