/* Hooks: pass every allocation and every free to the heap profile, the probes, the debug rings and the site rules.
 *
 *   gate shut -> every call is a miss -> the slow path serves it from the same bins -> hooks: ring; countdown: picked? -> sample
 *
 * Owns       This file owns the state that says whether calls are hooked, and the mean number of bytes between two samples.
 * Invariant  No hook runs unless an option or `hakmem` requires it. A hook sees a block after its allocation and before its free.
 * Threads    Any thread may call the hooks. The caller holds no lock.
 * Never      A hook never allocates blocks. */
#pragma once

#include "prof/attach_sampling.h"
#include "prof/sites.h"
#include "tcache/tcache.h"

struct hk_hooks {
    bool watches;  /* true after an attach; then calls may be hits, and attach_sampling.h picks the blocks */
    bool traces;   /* the debug rings are on */
    bool sites;    /* site rules apply or are watched */
    uint64_t mean; /* mean bytes between samples; 0: sampling is off */
    uint64_t began_ms;
};

/* All fields are written before HK_MODE_HOOKS is set, so that a thread that sees this bit also sees the fields. */
extern struct hk_hooks hk_hooks;

/* Sets up the hooks that the options require, at the start. HK_MODE_HOOKS turns them on. Returns the size up to which allocations need no hook. */
size_t hk_hooks_begin(void);
/* Begins to sample a running process, or changes the mean. Returns false if memory is refused, or if the process began with hooks. */
bool hk_hooks_watch(uint64_t mean);
/* Ends the sampling of a running process. Removes the samples of user heaps, because their frees may be hits from now on. */
void hk_hooks_unwatch(void);
/* Samples a block that a countdown has picked, before the program gets it. Shuts the caches of a user heap that has the block. */
void hk_hooks_picked(const void *block, size_t size, void *caller);

/* In a fork child, unlocks the countdown of the threads without a tcache. The thread that was using this countdown may not exist in the child. */
void hk_hooks_fork_child(void);

void hk_hooks_trace(struct hk_tcache *cache, enum hk_event_kind kind, size_t size, const void *block);
/* Runs when the countdown of `cache` may have run out, or if the thread has no tcache (`cache` is NULL). If it has run out, samples the block. */
void hk_hooks_pick(struct hk_tcache *cache, const void *block, size_t size, void *caller);
void hk_hooks_unpick(const void *block);

/* Runs after an allocation. `caller` is the return address of malloc or its family. */
HK_INLINE void hk_hooks_alloc(enum hk_event_kind kind, const void *block, size_t size, void *caller)
{
    struct hk_tcache *cache = hk_tcache_self();
    if (HK_UNLIKELY(hk_hooks.traces))
        hk_hooks_trace(cache, kind, size, block);
    if (hk_hooks.sites && size > HK_SITES_FROM && !hk_heaps_has(block))
        hk_sites_alloc(cache != NULL ? &cache->to_site : NULL, block, size, caller, kind != HK_EVENT_resize);
    if (hk_hooks.mean != 0 && !hk_hooks.watches &&
        HK_UNLIKELY(cache == NULL || hk_countdown_runs_out(&cache->countdown, size)))
        hk_hooks_pick(cache, block, size, caller);
}

/* Runs before a free. `size` is the size of a block in a slab if the debug rings are on, and otherwise 0. Returns the block's site rule. */
HK_INLINE enum hk_site_rule hk_hooks_free(const void *block, size_t size)
{
    if (HK_UNLIKELY(hk_hooks.traces))
        hk_hooks_trace(hk_tcache_self(), HK_EVENT_free, size, block);
    if (hk_hooks.mean != 0 && HK_UNLIKELY(hk_sample_may_be(&hk_samples, block)))
        hk_hooks_unpick(block);
    if (hk_hooks.sites && HK_UNLIKELY(hk_sample_may_be(&hk_site_samples, block)))
        return hk_sites_free(block);
    return HK_SITE_NO_RULE;
}

/* Runs before a resize in place, which counts as a free and an allocation. Returns the record that hk_hooks_resize_end() needs. */
uint64_t hk_hooks_resize_begin(const void *block);
/* Runs after a resize in place. `resized` is NULL if the resize failed. */
void hk_hooks_resize_end(const void *block, uint64_t record, const void *resized, size_t size, void *caller);

/* Returns true if a user heap must have no caches, because the hooks have to see each of its allocations. */
HK_INLINE bool hk_hooks_see_heaps(void)
{
    return hk_mode_has(HK_MODE_HOOKS) &&
           (hk_hooks.watches ? hk_load(hk_attach_sampling.xon) : hk_hooks.mean != 0 || hk_hooks.traces);
}
/* Runs after an allocation in a user heap. Site rules do not apply to user heaps. */
void hk_hooks_alloc_in_heap(const void *block, size_t size, void *caller);
/* Removes the samples of a user heap that is about to be reset or destroyed. If `heap` is NULL, removes those of all user heaps. */
void hk_hooks_forget_heap(struct hak_heap *heap);

/* Writes the samples as text, in the format of pprof and jeprof ("heap_v2"). The line of a site holds the sampled blocks and bytes, which readers
 * scale up by the mean in the first line. `hakmem` reads the comments, which hold the lifetimes of each site's freed blocks (B: see sample.h), the
 * births of the live blocks, in ms, and the build-id of the file in the line before:
 *
 *   # hakmem 1 began MS now MS    # site NUMBER freed B:BLOCKS ...    # live SITE SIZE BORN    # build-id DIGITS
 *
 * Any thread may call the function, which returns 0. Samples that other threads take during the call may be missing. `path` is not used. */
int hk_heap_profile_write(int fd, const char *path);
/* Returns the live bytes of the program, estimated from the samples. */
uint64_t hk_heap_profile_live(void);
