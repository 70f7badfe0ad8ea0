/* Drain: collects remote frees from the thread's inbox and, for a miss, from the inboxes of owners that are asleep. An owner is asleep
 * if its thread has made no slow call for 10 ms.
 * Owns     the limit of one call's work: no call of the program takes long.
 * Threads  the cache's own. */
#ifndef HK_DRAIN_H
#define HK_DRAIN_H

#include "tcache/layout.h"

/* Drains a few slabs of each class. */
void hk_drain_some(struct hk_tcache *cache);
void hk_drain_all(struct hk_tcache *cache);
/* Before a miss allocates a slab of the class: drains as many bytes as the slab has, or else steals from an owner that is asleep. */
void hk_drain_for_miss(struct hk_tcache *cache, unsigned class);
/* When memory is refused: fills the empty bins from the inboxes of all other owners, asleep or not. */
void hk_tcache_steal_all(struct hk_tcache *cache);

#endif
