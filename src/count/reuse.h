/* Reuse: how long memory lies idle before it is reused, whether it stayed resident or was purged.
 * Owns     the sums, and the time of the last clock reading.
 * Threads  any, relaxed. */
#ifndef HK_REUSE_H
#define HK_REUSE_H

#include "base/base.h"

/* Span b counts memory reused within HK_REUSE_SHORTEST << b milliseconds; the last span, all memory reused later. */
enum { HK_REUSE_SPANS = 9, HK_REUSE_SHORTEST = 64 };

struct hk_reuse {
    _Atomic uint64_t xnow_ms
        HK_ALIGNED(HK_CACHE_LINE);                     /* set by the last tick of any thread; read by every slow call */
    _Atomic uint64_t xidled HK_ALIGNED(HK_CACHE_LINE); /* total bytes that have become idle */
    _Atomic uint64_t xback[HK_REUSE_SPANS];            /* those of them that were reused */
};
extern struct hk_reuse hk_reuse;

HK_INLINE uint64_t hk_reuse_span_ms(unsigned span) { return (uint64_t)HK_REUSE_SHORTEST << span; }
HK_INLINE uint64_t hk_reuse_now(void) { return hk_load(hk_reuse.xnow_ms); }
/* Keeps time monotonic: the thread that read the clock first may store last. */
HK_INLINE void hk_reuse_saw(uint64_t now_ms)
{
    if (now_ms > hk_reuse_now())
        hk_store(hk_reuse.xnow_ms, now_ms);
}
HK_INLINE void hk_reuse_idled(size_t bytes) { hk_add(hk_reuse.xidled, bytes); }
void hk_reuse_back(uint64_t idle_ms, size_t bytes);

#endif
