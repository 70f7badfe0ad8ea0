/* This header is for files outside the folder tcache. It declares how a thread's cache (tcache) begins, serves after a miss, is flushed, and ends.
 * Threads    Only the cache's own thread uses a cache. Any thread may call hk_tcache_begin(), hk_tcache_end() and the sums over all caches. */
#ifndef HK_TCACHE_H
#define HK_TCACHE_H

#include "tcache/miss.h"
#include "tcache/pool.h"

/* Gives the calling thread a cache. Returns false if memory is refused. */
bool hk_tcache_begin(void);
/* Returns a block of the class. Never returns a joined block (joined_blocks.h), which may be aligned to less. Returns NULL if memory is refused. */
void *hk_tcache_alloc_aligned(struct hk_tcache *cache, unsigned class);
/* Resizes a block in place. Works only for a block that has a slab of this thread to itself. Returns false if the block has to move. */
bool hk_tcache_resize(struct hk_tcache *cache, void *block, size_t size);
/* Returns the blocks of the quarantine, the bins, the depot and the outbox to their slabs. Ends the program if one of them was freed twice. */
void hk_tcache_flush(struct hk_tcache *cache);
/* Flushes the cache, releases the thread's slabs without live blocks, and purges the free pages of its other slabs. Returns the purged bytes. */
size_t hk_tcache_trim(struct hk_tcache *cache);
/* Trims the cache, and purges the caches of ended threads and all idle memory except `keep` bytes. `cache` may be NULL. Returns the purged bytes,
 * except those of ended threads' caches. */
size_t hk_tcache_trim_all(struct hk_tcache *cache, size_t keep);

#endif
