/* Flush: moves free blocks to their slabs: the thread's own directly, those of other owners through the outbox, those of abandoned slabs
 * at once.
 * Threads  the cache's own. */
#ifndef HK_FLUSH_H
#define HK_FLUSH_H

#include "tcache/layout.h"

void hk_flush(struct hk_tcache *cache, void *const *blocks, unsigned n);

#endif
