/* Pool: the caches of threads that have ended: who begins takes one of them, and what lies idle gives its pages back.
 *
 *   hk_pool_put -> waits, for the next thread -> not taken from one pass to the next: its counts are kept here,
 *   its pages go, it reads as zeros -> taken all the same, it is made anew where it was, with its number
 *
 * Owns       the caches without a thread, and what those have counted whose pages are gone.
 * Invariant  a cache stays where it is, and stays a cache: what a stale number leads to can be read. Zeros mean a thread that is
 *            not there: closed inboxes, no blocks, nothing counted.
 * Threads    any (one lock, never held while pages are given back). */
#ifndef HK_POOL_H
#define HK_POOL_H

#include "tcache/tcache.h"

/* A cache with a number, its bins unset, its inboxes closed: the one of the lowest number that waits, else a new one. NULL if
 * memory is refused. */
struct hk_tcache *hk_pool_take(void);
/* Its thread has ended: it holds nothing, and nobody delivers to it. */
void hk_pool_put(struct hk_tcache *cache);
/* The same in a fork child, where no other thread is. */
void hk_pool_put_locked(struct hk_tcache *cache);

/* Does one wait? A glance. */
bool hk_pool_waits(void);
/* A cache whose thread is gone without a word; NULL when `most` have been looked at, from where the last call stopped. */
struct hk_tcache *hk_pool_next_dead(unsigned *most);

/* Calls `what` if nobody has; whoever comes meanwhile waits. */
void hk_pool_once(_Atomic bool *done, void (*what)(void));

/* Are there so many threads that a new one had better take its first blocks from commons? */
bool hk_pool_crowded(void);

/* Gives back the pages of caches that have waited since the call for an earlier pass. */
void hk_pool_epoch(uint64_t epoch);
/* Of all that wait. The bytes. */
size_t hk_pool_purge(void);

/* At the start: fork takes its lock. */
void hk_pool_init(void);
/* In a fork child, which has so many threads. */
void hk_pool_fork_child(size_t threads);

#endif
