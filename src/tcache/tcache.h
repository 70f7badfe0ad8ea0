/* Tcache: the room's door for other rooms: a thread's cache, from its beginning to its end, and the slow paths behind a miss.
 * Threads    a cache: its own. hk_tcache_begin(), hk_tcache_end() and the sums over all caches: any. */
#ifndef HK_TCACHE_H
#define HK_TCACHE_H

#include "tcache/miss.h"
#include "tcache/pool.h"

/* Gives the calling thread a cache. Returns false if memory is refused. */
bool hk_tcache_begin(void);
/* Returns a block from a slab whose blocks are aligned to their size. Joined blocks (joined_blocks.h) are not. Returns NULL if memory is refused. */
void *hk_tcache_alloc_aligned(struct hk_tcache *cache, unsigned class);
/* Resizes a block in place. Returns false if the block has to move. */
bool hk_tcache_resize(struct hk_tcache *cache, void *block, size_t size);
/* Flushes bins, depot and outbox. Each block is checked against its slab's bitmap. */
void hk_tcache_flush(struct hk_tcache *cache);
/* Flushes the cache. Purges the owner's empty slabs and the free pages of its other slabs. Returns the bytes purged. */
size_t hk_tcache_trim(struct hk_tcache *cache);

#endif
