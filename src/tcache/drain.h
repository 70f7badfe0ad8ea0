/* Drain: blocks that other threads freed come back: the thread's own from its inbox, and, where it runs short, those of owners that
 * are asleep.
 * Owns     the amount that one call takes: no call of the program waits for more.
 * Threads  the cache's own. */
#ifndef HK_DRAIN_H
#define HK_DRAIN_H

#include "tcache/tcache.h"

/* Takes a few slabs of each class out of the thread's inbox. */
void hk_drain_some(struct hk_tcache *cache);
/* Takes all. */
void hk_drain_all(struct hk_tcache *cache);
/* Before a slab of the class is cut: takes as much from the thread's inbox, or else from an owner that is asleep. */
void hk_drain_for_miss(struct hk_tcache *cache, unsigned class);

#endif
