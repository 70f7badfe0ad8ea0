/* Lifecycle: gives a thread its cache at its first miss and ends it at the thread's end; the constructor and destructor of the process.
 * Owns     the thread key.
 * Threads  any. */
#ifndef HK_LIFECYCLE_H
#define HK_LIFECYCLE_H

#include "guard/guard.h"
#include "runtime/start.h"
#include "tcache/hit.h"
#include "tcache/tcache.h"

/* The calling thread's cache, begun if necessary; NULL if it has ended or memory is refused. */
struct hk_tcache *hk_tcache_get_slow(void);
HK_INLINE struct hk_tcache *hk_tcache_get(void)
{
    struct hk_tcache *cache = hk_started() ? hk_tcache_self() : NULL;
    return HK_LIKELY(cache != NULL) ? cache : hk_tcache_get_slow();
}

/* True if the guard is on. Starts HAKMEM if necessary, because the start decides that. The guard must not miss the block of the first
 * call. A plain mode costs one compare: only a start without the guard makes the mode plain. */
HK_INLINE bool hk_guard_is_on(void)
{
    return HK_UNLIKELY(!hk_mode_is_plain()) && hk_started() && hk_mode_has(HK_MODE_GUARD);
}

/* Before a process ends without its destructors: writes what the options ask for at its end. */
void hk_end_at_once(void);

/* Marks the calling thread as counted (threads.c). False if that is impossible. */
bool hk_mark_thread(void);

#endif
