/* Life: when a thread gets and loses its cache, and what happens when the process begins and ends.
 * Owns     the thread key.
 * Threads  any. */
#ifndef HK_LIFE_H
#define HK_LIFE_H

#include "runtime/start.h"
#include "tcache/tcache.h"

/* The calling thread's cache, begun if need be; NULL if it ended, or memory is refused. */
struct hk_tcache *hk_life_cache_slow(void);
HK_INLINE struct hk_tcache *hk_life_cache(void)
{
    struct hk_tcache *cache = hk_life_started() ? hk_tcache_self() : NULL;
    return HK_LIKELY(cache != NULL) ? cache : hk_life_cache_slow();
}

/* The calling thread is one that is counted (threads.h); false if that cannot be. */
bool hk_life_mark_thread(void);

#endif
