/* These functions serve malloc and free after a miss. Usually, every 16th of these slow calls is a tick. A tick also drains the inboxes, reads the
 * clock, purges, and sweeps the thread's slabs. The page map entry of a freed block decides what happens to the block:
 *
 *   own slab -> own bin     other owner -> outbox, or own bin     abandoned slab -> adopt, or outbox     large block -> its cache
 *
 * Threads  The cache's own thread calls these functions. If `cache` may be NULL, any thread may call them. */
#ifndef HK_MISS_H
#define HK_MISS_H

#include "tcache/layout.h"

/* The weights of slow calls. A tick follows when the weights since the last tick add up to HK_TICK_NOW. */
enum { HK_TICK_REMOTE_FREE = 1, HK_TICK_SLOW_CALL = 4, HK_TICK_NOW = 64 };
/* Returns the weight of a slow call for a class. Classes with large slabs weigh more, because the call may grow the heap by a whole slab. */
int hk_tick_weight(unsigned class);
void hk_tick(struct hk_tcache *cache, int weight);
/* Tells the cache that `bytes` were newly mapped for a large block of the calling thread. */
void hk_tcache_grew(struct hk_tcache *cache, size_t bytes);
/* Returns a block of a class for a request of `size` bytes, from the bin or after a miss. Returns NULL if memory is refused. */
void *hk_tcache_alloc(struct hk_tcache *cache, unsigned class, size_t size);
/* Returns a block of a class for a request of `size` bytes after a miss, or NULL if memory is refused. Precondition: the bin is empty. */
void *hk_tcache_refill(struct hk_tcache *cache, unsigned class, size_t size);
/* Puts a freed block of a class into the thread's own bin. A full bin grows or is flushed first. */
void hk_tcache_keep(struct hk_tcache *cache, unsigned class, void *block);
/* Frees a block that the hit path did not take. `entry` is the block's page map entry, and must not be 0. `cache` may be NULL. */
void hk_tcache_free(struct hk_tcache *cache, void *block, uint32_t entry);
/* Frees a large block. `cache` may be NULL. */
void hk_tcache_free_large(struct hk_tcache *cache, void *block);
/* Ignores the free of a block of the bootstrap arena or of another allocator. Ends the program for any other pointer without a page map entry. */
void hk_tcache_free_foreign(enum hk_call call, void *block);
/* Returns the number of readable bytes from the start of a block of another allocator. Ends the program if no byte is readable. */
size_t hk_tcache_foreign_extent(enum hk_call call, const void *block);
/* Returns the message about a pointer that has no page map entry. */
const char *hk_tcache_foreign_fault(const void *p);

#endif
