/* This header is for files outside the folder tcache. It declares how a thread's cache (tcache) begins, serves after a miss, is flushed, and ends.
 *
 * A slow call is a call that missed. About every 16th slow call also runs a tick, which drains the inboxes, reads the clock, purges free memory, and
 * sweeps the thread's slabs. A freed block goes to one of these places, depending on its page map entry:
 *
 *   own slab -> own bin     other owner's slab -> outbox or own bin     abandoned slab -> own bin, outbox or the slab     large block -> large cache
 *
 * Threads    Only the cache's own thread uses a cache. Any thread may call begin, end, the sums, and functions whose `cache` may be NULL. */
#pragma once

#include "tcache/pool.h"

/* Gives the calling thread a cache. Returns false if memory is refused. */
bool hk_tcache_begin(void);
/* Resizes a block in place. Works only for a block that has a slab of this thread to itself. Returns false if the block has to move. */
bool hk_tcache_resize(struct hk_tcache *cache, void *block, size_t size);
/* Flushes the cache, releases the thread's slabs without live blocks, and purges the free pages of its other slabs. Returns the purged bytes. */
size_t hk_tcache_trim(struct hk_tcache *cache);
/* Trims the cache, and purges the caches of ended threads and all idle memory except `keep` bytes. `cache` may be NULL. Returns the purged bytes,
 * except those of ended threads' caches. */
size_t hk_tcache_trim_all(struct hk_tcache *cache, size_t keep);

/* The weights of slow calls. A tick follows when the weights since the last tick add up to HK_TICK_NOW. */
enum { HK_TICK_REMOTE_FREE = 1, HK_TICK_SLOW_CALL = 4, HK_TICK_NOW = 64 };
/* Returns the weight of a miss in a class. Classes with larger slabs weigh more, because a miss may grow the heap by a whole slab. */
int hk_tick_weight(unsigned class);
void hk_tick(struct hk_tcache *cache, int weight);
/* Tells the cache that a large block of the calling thread was given `bytes` of new memory, so that a tick comes soon. */
void hk_tcache_grew(struct hk_tcache *cache, size_t bytes);
/* Returns a block of a class for a request of `size` bytes, from the bin or after a miss. With the options small_fit and medium_fit, the block may
 * be of a larger class. Returns NULL if memory is refused. */
void *hk_tcache_alloc(struct hk_tcache *cache, unsigned class, size_t size);
/* Returns true if the program should move a block, because a move helps to empty its slab (hk_slab_heap_take_fuller()). The thread's next block of
 * this size then comes from a fuller slab. `block` may be any address. If it is that of a block, no thread may free it now. `cache` may be NULL. */
bool hk_tcache_should_move(struct hk_tcache *cache, const void *block);
/* Puts a freed block into this thread's bin of the class. If the bin is full, enlarges the bin, or flushes its older half. */
void hk_tcache_keep(struct hk_tcache *cache, unsigned class, void *block);
/* Frees a block after a miss. `entry` is the block's page map entry, and must not be 0. `cache` may be NULL. */
void hk_tcache_free(struct hk_tcache *cache, void *block, uint32_t entry);
/* Frees a large block. `cache` may be NULL. */
void hk_tcache_free_large(struct hk_tcache *cache, void *block);
/* Ignores a free of a pointer in the break heap, which another allocator may use. Ends the program at any other pointer without a page map entry. */
void hk_tcache_free_foreign(enum hk_call call, void *block);
/* Returns the number of bytes from an address to the end of the break heap. Ends the program if the address is not in the break heap. */
size_t hk_tcache_foreign_extent(enum hk_call call, const void *block);
/* Returns the message about an invalid pointer without a page map entry. `p` may lie inside a large block, or outside HAKMEM's memory. */
const char *hk_tcache_foreign_fault(const void *p);
