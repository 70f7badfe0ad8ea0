/* Flush: blocks leave the thread: its own to their slabs, all others by way of the outbox, or to the orphans.
 * Threads  the cache's own. */
#ifndef HK_FLUSH_H
#define HK_FLUSH_H

#include "tcache/tcache.h"

void hk_flush(struct hk_tcache *cache, void *const *blocks, unsigned n);

#endif
