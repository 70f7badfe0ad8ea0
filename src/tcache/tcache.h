/* Tcache: the room's door for other rooms: a thread's cache, from its beginning to its end, and the slow paths behind a miss.
 * Threads    a cache: its own. hk_tcache_begin(), hk_tcache_end() and the sums over all caches: any. */
#ifndef HK_TCACHE_H
#define HK_TCACHE_H

#include "tcache/miss.h"
#include "tcache/pool.h"

/* Gives the calling thread a cache. False if memory is refused. */
bool hk_tcache_begin(void);
/* A block from a slab in which each block is aligned to its size; joined blocks (joined_blocks.h) are not. NULL if memory is refused. */
void *hk_tcache_alloc_aligned(struct hk_tcache *cache, unsigned class);
/* Resizes a block in place. False if it has to move. */
bool hk_tcache_resize(struct hk_tcache *cache, void *block, size_t size);
/* Flushes bins, depot and outbox: each block is checked against its slab's bitmap. */
void hk_tcache_flush(struct hk_tcache *cache);
/* The same, and purges the owner's empty slabs and the free pages of the others. Returns the bytes purged. */
size_t hk_tcache_trim(struct hk_tcache *cache);

#endif
