/* Pool: the caches of threads that have ended, for threads to come; the numbers of all caches; and the sums over all caches.
 *
 *   hk_pool_put -> waits for the next thread -> unused from one epoch to the next: its counts are added to the pool's, its pages are
 *   purged, it reads as zeros -> a new thread still may take it: it is initialized in place and keeps its number
 *
 * Owns       the caches without a thread, and the counts of those that were purged.
 * Invariant  a cache never moves and never becomes anything else: a stale number leads to readable memory. Zeros mean a thread that
 *            does not exist: closed inboxes, no blocks, no counts.
 * Threads    any (one lock, released while pages are purged). */
#ifndef HK_POOL_H
#define HK_POOL_H

#include "tcache/layout.h"

/* Returns a cache with a number. Its bins are uninitialized, and its inboxes are closed. It is the waiting cache with the lowest number or, if
 * none waits, a new one. Returns NULL if memory is refused. */
struct hk_tcache *hk_pool_take(void);
/* Puts a cache into the pool. Precondition: its thread has ended, it holds no blocks, and its inboxes are closed. */
void hk_pool_put(struct hk_tcache *cache);
/* Does the same without the lock, in a fork child, which has no other thread. */
void hk_pool_put_locked(struct hk_tcache *cache);
/* Returns true if a cache waits. Does not take the lock. */
bool hk_pool_waits(void);
/* Returns the next cache, by number, whose thread is gone and has not ended it. Returns NULL when `most` caches have been checked. */
struct hk_tcache *hk_pool_next_dead(unsigned *most);
/* Calls `begin` if no thread has called it. Returns when `begin` is done. */
void hk_pool_once(_Atomic bool *done, void (*begin)(void));
/* Returns true if there are so many threads that a new one takes its first blocks from the commons. */
bool hk_pool_crowded(void);
/* Purges the caches that have waited since an earlier epoch. */
void hk_pool_epoch(uint64_t epoch);
/* Returns the bytes of the waiting caches that are not purged. */
size_t hk_pool_resident(void);
/* Purges all waiting caches. Returns the number of bytes. */
size_t hk_pool_purge(void);
/* Registers the lock, at the start. */
void hk_pool_init(void);
/* Repairs the pool in a fork child that has `threads` threads. */
void hk_pool_fork_child(size_t threads);
/* Returns the number of threads that have a cache. */
size_t hk_tcaches_alive(void);
/* Returns the cache of a number that was ever given, whether or not its thread is alive (see hk_owner_next()). */
struct hk_tcache *hk_tcache_by_id(uint32_t id);
/* Allocates the ring's events, as many as the option says. The ring stays shut if the option is 0 or memory is refused. */
void hk_tcache_open_ring(struct hk_ring *ring);

/* Returns the misses of all threads. Any thread may call it. Each value may be slightly old. */
struct hk_misses hk_tcaches_misses(unsigned class);
/* Return sums over all threads, alive or not: the blocks of a class that bins have served, the misses of all classes, and a statistic. */
uint64_t hk_tcaches_served(unsigned class);
uint64_t hk_tcaches_missed(void);
uint64_t hk_tcaches_counted(enum hk_thread_stat stat);

#endif
