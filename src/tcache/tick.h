/* Tick: what slow calls do beside their own work, each so many calls: drain the inbox, read the clock, purge, sweep the thread's slabs.
 * Threads  the cache's own. */
#ifndef HK_TICK_H
#define HK_TICK_H

#include "tcache/tcache.h"

/* How much of the way to the next tick a call is. */
enum { HK_TICK_REMOTE_FREE = 1, HK_TICK_SLOW_CALL = 4, HK_TICK_NOW = 64 };
/* Of a slow call for a class: the heap may grow by a whole slab in it. */
int hk_tick_weight(unsigned class);
void hk_tick(struct hk_tcache *cache, int weight);

#endif
