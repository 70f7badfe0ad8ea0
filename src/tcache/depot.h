/* Depot: a thread's magazines: batches of free blocks set aside as a whole, so that the blocks of a burst pass through the bitmaps
 * neither when they are freed nor when they are allocated again.
 *
 *   full bin --hk_depot_put--> magazine --hk_depot_take--> empty bin
 *
 * Owns       the magazines, and the limit of their bytes.
 * Invariant  classes that no fill has drawn on since the last epoch shrink.
 * Threads    the cache's own. */
#ifndef HK_DEPOT_H
#define HK_DEPOT_H

#include "tcache/layout.h"

/* Copies n <= HK_MAGAZINE_BLOCKS blocks into a magazine. False if the depot is full, the blocks are scattered, or memory is refused. */
bool hk_depot_put(struct hk_depot *depot, unsigned class, void *const *blocks, size_t n);
/* Copies the newest magazine out. Returns the number of blocks, 0 if there is no magazine or it has more than `room`. */
size_t hk_depot_take(struct hk_depot *depot, unsigned class, void **blocks, size_t room);
/* Once per epoch: flushes magazines of the classes that were not drawn on since the last call, and frees one spare magazine. */
void hk_depot_age(struct hk_tcache *cache);
/* Flushes `bytes` of blocks of the class that has most, other than `class`, so that `class` can grow into their memory. */
void hk_depot_reclaim(struct hk_tcache *cache, unsigned class, size_t bytes);
/* Flushes all magazines. */
void hk_depot_empty(struct hk_tcache *cache);
/* In a fork child, for a thread that does not exist there: forgets the magazines. Returns the number of their blocks. */
size_t hk_depot_forget(struct hk_depot *depot);
/* Moves free blocks to their slabs: the thread's own directly, those of other owners through the outbox, those of abandoned slabs at once. */
void hk_flush(struct hk_tcache *cache, void *const *blocks, unsigned n);

#endif
