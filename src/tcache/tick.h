/* Tick: every sixteenth slow call also drains the inbox, reads the clock, purges, and sweeps the thread's slabs.
 * Threads  the cache's own. */
#ifndef HK_TICK_H
#define HK_TICK_H

#include "tcache/layout.h"

/* Weights of calls; a tick follows when the weights since the last one add up to HK_TICK_NOW. */
enum { HK_TICK_REMOTE_FREE = 1, HK_TICK_SLOW_CALL = 4, HK_TICK_NOW = 64 };
/* Weight of a slow call for a class. Classes with medium slabs weigh more: the call may grow the heap by a whole
 * slab. */
int hk_tick_weight(unsigned class);
void hk_tick(struct hk_tcache *cache, int weight);
/* Returns true if the next miss of the class makes a tick, and the allocation is to lie against a guard page. Then the tick is done here. */
bool hk_tick_picks(struct hk_tcache *cache, unsigned class);
/* Accounts for `bytes` newly mapped for a large block of the calling thread. */
void hk_tcache_grew(struct hk_tcache *cache, size_t bytes);

#endif
