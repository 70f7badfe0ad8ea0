/* FreeMiss: free behind a miss: each kind of block goes where its page map entry says.
 *
 *   own slab -> own bin     other owner -> outbox, or own bin     abandoned slab -> adopt, or outbox     large block -> its cache
 *
 * Threads  the cache's own; any where the cache may be NULL. */
#ifndef HK_FREE_MISS_H
#define HK_FREE_MISS_H

#include "tcache/layout.h"

/* Frees a block of a class into the thread's own bin; a full bin grows or is flushed first. */
void hk_tcache_keep(struct hk_tcache *cache, unsigned class, void *block);
/* Frees a block that the hit path did not take; `entry` is its page map entry, not 0. `cache` may be NULL. */
void hk_tcache_free(struct hk_tcache *cache, void *block, uint32_t entry);
/* `cache` may be NULL. */
void hk_tcache_free_large(struct hk_tcache *cache, void *block);
/* Frees a pointer that has no page map entry: ignores a block of the bootstrap arena or of another allocator; else
 * fatal. */
void hk_tcache_free_foreign(enum hk_call call, void *block);
/* Readable bytes of such a block; else fatal. */
size_t hk_tcache_foreign_extent(enum hk_call call, const void *block);
/* The message about a pointer that has no page map entry. */
const char *hk_tcache_foreign_fault(const void *p);

#endif
