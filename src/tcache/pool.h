/* The pool keeps the caches of threads that have ended for new threads. It also gives the caches their numbers, and adds up their counts.
 *
 *   hk_pool_put -> waits for the next thread -> unused from one epoch to the next: its counts are added to the pool's, its pages are
 *   purged, it reads as zeros -> a new thread still may take it: it is initialized in place and keeps its number
 *
 * Owns       The pool owns the caches without a thread, and the sums of the counts of purged caches.
 * Invariant  The memory of a cache is never used for anything else, so a stale number leads to readable memory. A purged cache reads as zeros.
 *            These zeros mean no thread, closed inboxes, no blocks and no counts.
 * Threads    Any thread may call these functions. One lock protects the pool. The lock is released while pages are purged. */
#ifndef HK_POOL_H
#define HK_POOL_H

#include "tcache/layout.h"

/* Returns the waiting cache with the lowest number or a new cache, with uninitialized bins and closed inboxes. Returns NULL if memory is refused. */
struct hk_tcache *hk_pool_take(void);
/* Puts a cache into the pool. Precondition: its thread has ended, it holds no blocks, and its inboxes are closed. */
void hk_pool_put(struct hk_tcache *cache);
/* Returns true if a cache waits in the pool. Does not take the lock. */
bool hk_pool_waits(void);
/* Returns the next cache whose thread is gone without having ended the cache. Counts *most down at each check. Returns NULL when *most is 0. */
struct hk_tcache *hk_pool_next_dead(unsigned *most);
/* Initializes hk_thread_ended if no earlier call has done so. Called when a thread ends, because in most processes no thread ends. */
void hk_pool_shut_ended(void);
/* Returns true if there are so many threads that a new thread takes its first blocks from the commons. */
bool hk_pool_crowded(void);
/* Purges the caches that have waited in the pool since an earlier epoch. */
void hk_pool_epoch(uint64_t epoch);
/* Purges all caches of ended threads that wait for a new thread. Returns the number of purged bytes. */
size_t hk_pool_purge(void);
/* Purges the memory of ended threads if there is much of it. An ending thread calls this if only one other thread remains, because that thread may
 * make no more calls. */
void hk_tcaches_all_ended(void);
/* Registers the lock of the pool at the start, because fork must take this lock. */
void hk_pool_init(void);
/* Repairs the pool in a fork child that has `threads` threads. */
void hk_pool_fork_child(size_t threads);
/* Returns the number of threads that have a cache. */
size_t hk_tcaches_alive(void);
/* Returns the cache with a number, even if its thread has ended. The number must have been given to a cache (see hk_owner_next()). */
struct hk_tcache *hk_tcache_by_id(uint32_t id);
/* Allocates as many events for the ring as the option says. The ring stays shut if the option is 0 or memory is refused. */
void hk_tcache_open_ring(struct hk_ring *ring);

/* Returns the misses of a class, summed over all threads. Each value may be slightly old. */
struct hk_misses hk_tcaches_misses(unsigned class);
/* These functions return the number of blocks that the bins of a class have served, the number of all misses, and a statistic. Each result is a sum
 * over all threads, including ended threads. */
uint64_t hk_tcaches_served(unsigned class);
uint64_t hk_tcaches_missed(void);
uint64_t hk_tcaches_counted(enum hk_stat stat);

#endif
