/* The pool keeps the tcaches of threads that have ended, and gives them to new threads. It also adds up the counts of all caches.
 *
 *   hk_pool_put() --> waits for a new thread --> has waited from one epoch to the next: purged --> hk_pool_take(): belongs to a new thread
 *   hk_pool_park() --> keeps its blocks and slabs, as if its thread slept --> hk_pool_unpark(): belongs to a new thread, or is ended and put
 *   A purge first adds the counts of the cache to the pool's sums. A new thread can also take a purged cache, which keeps its number.
 *
 * Owns       The pool owns the caches without a thread, and the sums of the counts that purged caches had.
 * Invariant  The memory of a cache is never used for anything else, so a stale number leads to readable memory. A purged cache reads as zeros.
 *            These zeros mean no thread, closed inboxes, no blocks and no counts.
 * Threads    Any thread may call these functions. One lock protects the pool. The lock is released while pages are purged. */
#pragma once

#include "tcache/layout.h"

/* Returns the waiting cache with the lowest number. If no cache waits, makes a new one. Returns NULL if memory is refused. The bins of the cache are
 * not initialized, and its inboxes are closed. */
struct hk_tcache *hk_pool_take(void);
/* Puts a cache into the pool. Precondition: the cache's thread has ended, the cache holds no blocks, and its inboxes are closed. */
void hk_pool_put(struct hk_tcache *cache);
enum { HK_POOL_PARKED = 8 }; /* the most caches that are parked */
/* Parks a cache, so that the next thread gets it with its bins and slabs. Returns false if too many caches are parked. Precondition: the cache's thread
 * has ended, and the cache is in a slow call (hk_tcache_enter()). */
bool hk_pool_park(struct hk_tcache *cache);
unsigned hk_pool_parked(void); /* the number of parked caches */
/* Returns a parked cache, or NULL. HK_UNPARK_DUE: the oldest, if it has been parked since the epoch before the last one. */
enum hk_unpark { HK_UNPARK_NEWEST, HK_UNPARK_OLDEST, HK_UNPARK_DUE };
struct hk_tcache *hk_pool_unpark(enum hk_unpark which);
/* Returns true if a cache waits in the pool. Does not take the lock. */
bool hk_pool_waits(void);
/* Returns the next cache whose thread was killed and so did not end the cache. Counts *most down at each check. Returns NULL when *most is 0. */
struct hk_tcache *hk_pool_next_dead(unsigned *most);
/* Initializes hk_thread_ended once. Called when a thread ends, not at the start, because in most processes no thread ends. */
void hk_pool_shut_ended(void);
/* Returns true if there are so many threads that a new thread takes its first blocks from the commons. */
bool hk_pool_crowded(void);
/* Purges the caches that have waited in the pool since an earlier epoch, and says which parked caches are due. Called at each epoch. */
void hk_pool_epoch(uint64_t epoch);
/* Purges all caches of ended threads that wait for a new thread. Returns the number of purged bytes. */
size_t hk_pool_purge(void);
/* Returns true if ended threads have left so much memory that it must be purged now. Called when one thread remains. */
bool hk_pool_left_is_due(void);
/* Registers the lock of the pool at the start, because fork must take this lock. */
void hk_pool_init(void);
/* Repairs the pool in a fork child that has `threads` threads. */
void hk_pool_fork_child(size_t threads);
size_t hk_tcaches_alive(void);
/* Returns the cache with a number, even if its thread has ended. The number must have been given to a cache (see hk_owner_next()). */
struct hk_tcache *hk_tcache_by_id(uint32_t id);
/* Allocates the events of a trace ring. The ring stays shut if the option trace_ring is 0 or memory is refused. */
void hk_tcache_open_ring(struct hk_ring *ring);

/* Each of these functions returns a sum over all threads, including ended threads. The first one counts the misses of a class that one source served.
 * The others add up the bytes that the misses of a class requested, the blocks that the bins of a class served, and one statistic. */
uint64_t hk_tcaches_refilled(unsigned class, enum hk_source source);
uint64_t hk_tcaches_requested(unsigned class);
uint64_t hk_tcaches_served(unsigned class);
uint64_t hk_tcaches_counted(enum hk_stat stat);

/* Takes the blocks, except one of each class, out of the caches of other threads. The blocks become remote frees of their owners. If `awake_too` is
 * false, leaves out threads that have read the clock within four purge delays, and returns true if there are such threads. Leaves out threads in a
 * slow call, and does nothing if the system has no membarrier. */
bool hk_tcaches_recall(bool awake_too);
