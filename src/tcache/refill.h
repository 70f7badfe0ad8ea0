/* Refill: malloc behind a miss: tick, drain, and fill of the bin.
 * Threads  the cache's own. */
#ifndef HK_REFILL_H
#define HK_REFILL_H

#include "tcache/layout.h"

/* A block of a class for a request of `size` bytes, from the bin or after a miss; NULL if memory is refused. */
void *hk_tcache_alloc(struct hk_tcache *cache, unsigned class, size_t size);
/* The same. Precondition: the bin is empty. */
void *hk_tcache_refill(struct hk_tcache *cache, unsigned class, size_t size);

#endif
