/* Watch: every allocation and every free is seen, for the heap profile, the probes, the debug ring and the site rules.
 *
 *   gate shut -> every call is a miss -> the slow path serves it from the same bins -> watch: ring; countdown: picked? -> sample
 *
 * Owns       whether calls are seen, and how many bytes lie between two samples.
 * Invariant  nothing here runs where no option asks for it. A block is seen after it was allocated and before it is freed.
 * Threads    any; no lock is held.
 * Never      samples what it allocates itself (the unwinder may). */
#ifndef HK_HOOKS_H
#define HK_HOOKS_H

#include "prof/sample.h"
#include "prof/sites.h"
#include "tcache/tcache.h"

struct hk_hooks {
    bool on;       /* set last of all: who sees it finds all that was set up at start */
    bool traces;   /* there are rings */
    bool sites;    /* there are site rules, or what they would be is watched */
    uint64_t mean; /* bytes from sample to sample; 0: none are taken */
};

/* Written at start, before a call can be seen. */
extern struct hk_hooks hk_hooks;

/* At start: what do the options ask for? If calls are to be seen, then, when all is set up, they are. Returns up to which size
 * allocations need not be. */
size_t hk_hooks_begin(void);
void hk_hooks_open(void);

/* In a fork child: whoever was taking a sample without a cache is gone. */
void hk_hooks_fork_child(void);

void hk_hooks_trace(struct hk_tcache *cache, enum hk_event_kind kind, size_t size, const void *block);
/* The thread's countdown ran out; cache is NULL where there is none. */
void hk_hooks_pick(struct hk_tcache *cache, const void *block, size_t size, void *caller);
void hk_hooks_unpick(const void *block);

/* A block was given out: `caller` is the return address of malloc or its kin. */
HK_INLINE void hk_hooks_alloc(enum hk_event_kind kind, const void *block, size_t size, void *caller)
{
    struct hk_tcache *cache = hk_tcache_self();
    if (HK_UNLIKELY(hk_hooks.traces))
        hk_hooks_trace(cache, kind, size, block);
    if (hk_hooks.sites && size > HK_SITES_FROM)
        hk_sites_alloc(cache != NULL ? &cache->to_site : NULL, block, size, caller, kind != HK_EVENT_resize);
    if (hk_hooks.mean != 0 && HK_UNLIKELY(cache == NULL || hk_countdown_runs_out(&cache->countdown, size)))
        hk_hooks_pick(cache, block, size, caller);
}

/* A block is about to be freed; `size` is its class's, 0 if it has none. By which rule is it? */
HK_INLINE enum hk_site_rule hk_hooks_free(const void *block, size_t size)
{
    if (HK_UNLIKELY(hk_hooks.traces))
        hk_hooks_trace(hk_tcache_self(), HK_EVENT_free, size, block);
    if (hk_hooks.mean != 0 && HK_UNLIKELY(hk_sample_may_be(block)))
        hk_hooks_unpick(block);
    if (hk_hooks.sites && HK_UNLIKELY(hk_sites_may_hold(block)))
        return hk_sites_free(block);
    return HK_SITE_NO_RULE;
}

/* A block is about to be resized where it is: a free and an allocation, as if it moved. What this returns is passed on. */
uint64_t hk_hooks_resize_begin(const void *block);
/* `resized` is NULL if it could not be. */
void hk_hooks_resize_end(const void *block, uint64_t record, const void *resized, size_t size, void *caller);

#endif
