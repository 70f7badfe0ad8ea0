/* The pool keeps the caches of threads that have ended for new threads. It also gives the caches their numbers, and adds up their counts.
 *
 *   hk_pool_put -> waits for the next thread -> unused from one epoch to the next: its counts are added to the pool's, its pages are
 *   purged, it reads as zeros -> a new thread still may take it: it is initialized in place and keeps its number
 *
 * Owns       The pool owns the caches without a thread, and the sums of the counts of purged caches.
 * Invariant  The memory of a cache is always that of a cache, so a stale number leads to readable memory. A cache of zeros has no thread, closed
 *            inboxes, no blocks and no counts.
 * Threads    Any thread may call these functions. One lock protects the pool. It is released while pages are purged. */
#ifndef HK_POOL_H
#define HK_POOL_H

#include "tcache/layout.h"

/* Returns the waiting cache with the lowest number or a new cache. Its bins are uninitialized, its inboxes are closed. Returns NULL on a refusal. */
struct hk_tcache *hk_pool_take(void);
/* Puts a cache into the pool. Precondition: its thread has ended, it holds no blocks, and its inboxes are closed. */
void hk_pool_put(struct hk_tcache *cache);
/* Puts a cache into the pool without the lock. Called in a fork child, which has no other thread. */
void hk_pool_put_locked(struct hk_tcache *cache);
/* Returns true if a cache waits in the pool. Does not take the lock. */
bool hk_pool_waits(void);
/* Returns the next cache that its thread has not ended, although the thread is gone. Returns NULL when *most caches have been checked. */
struct hk_tcache *hk_pool_next_dead(unsigned *most);
/* Calls `begin` if no thread has called it before. If another thread is calling it, waits until it is done. */
void hk_pool_once(_Atomic bool *done, void (*begin)(void));
/* Returns true if there are so many threads that a new thread takes its first blocks from the commons. */
bool hk_pool_crowded(void);
/* Purges the caches that have waited in the pool since an earlier epoch. */
void hk_pool_epoch(uint64_t epoch);
/* Returns the bytes of the waiting caches that are not purged. */
size_t hk_pool_resident(void);
/* Purges all waiting caches. Returns the purged bytes. */
size_t hk_pool_purge(void);
/* Registers the lock of the pool for fork, at the start. */
void hk_pool_init(void);
/* Repairs the pool in a fork child that has `threads` threads. */
void hk_pool_fork_child(size_t threads);
/* Returns the number of threads that have a cache. */
size_t hk_tcaches_alive(void);
/* Returns the cache with a number, even if its thread has ended. The number must have been given to a cache (see hk_owner_next()). */
struct hk_tcache *hk_tcache_by_id(uint32_t id);
/* Allocates as many events for the ring as the option says. The ring stays shut if the option is 0 or memory is refused. */
void hk_tcache_open_ring(struct hk_ring *ring);

/* Returns the misses of all threads. Any thread may call it. Each value may be slightly old. */
struct hk_misses hk_tcaches_misses(unsigned class);
/* These functions return the blocks that bins of a class have served, all misses, or a statistic. Each is a sum over all threads, including ended
 * ones. */
uint64_t hk_tcaches_served(unsigned class);
uint64_t hk_tcaches_missed(void);
uint64_t hk_tcaches_counted(enum hk_thread_stat stat);

#endif
