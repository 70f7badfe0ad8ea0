/* The large cache keeps freed large blocks for reuse, within a budget and up to an age. It also cuts off the slack of blocks in use. A block that is
 * unmapped leaves a record, its ghost. If a later request has about the ghost's size, the learner is told that keeping the block was better. If the
 * program changes a block's mapping (mprotect, mlock, madvise, mremap ...), free unmaps the block, because its next user must not see the change.
 *
 *   A request looks at the newest cached blocks one by one. Older blocks are also in bins by size, eight for each power of two, newest first.
 *
 * Owns       This file owns the bins, the lists of struct hk_large, and the fields `requested`, `idle_since`, `by_size` and `modified`.
 * Invariant  A search of the bins looks at 64 blocks at most, and takes the best of these blocks.
 * Threads    Any thread may call these functions. Only the holder of the large lock may call hk_fit and `_locked` functions. Mapping and unmapping
 *            happen outside the lock. hk_large_note_modified() never waits for the lock, because it may run in a signal handler. */
#pragma once

#include "large/large_state.h"

enum { HK_FIT_STEPS = 8, HK_FIT_BINS = (HK_ADDRESS_BITS - HK_SLICE_SHIFT) * HK_FIT_STEPS };

struct hk_fit {
    size_t count;
    struct hk_list bins[HK_FIT_BINS]; /* a bin is initialized when it is first filled */
};

struct hk_want { /* a request, and which mappings are accepted for it */
    size_t bytes;
    size_t least; /* bytes of the smallest accepted mapping, which is lengthened if it has less than `bytes` */
    size_t range; /* bytes of the largest accepted mapping, minus `least` */
    size_t align;
};

/* Returns a request that accepts mappings up to `most`. If `align` is at most a page, accepts mappings from bytes / 2 on, which can be lengthened. */
HK_INLINE struct hk_want hk_want_for(size_t bytes, size_t most, size_t align)
{
    size_t least = align > hk_system_page() ? bytes : bytes / 2;
    return (struct hk_want){bytes, least, hk_max(most, least) - least, align};
}

void hk_fit_add(struct hk_fit *fit, struct hk_large_block *large);
void hk_fit_remove(struct hk_fit *fit, struct hk_large_block *large);

HK_INLINE bool hk_fit_serves(const struct hk_large_block *large, const struct hk_want *want)
{
    return large->d.bytes - want->least <= want->range && (large->d.start & (want->align - 1)) == 0;
}
HK_INLINE size_t hk_fit_distance(const struct hk_large_block *large, size_t bytes)
{
    return large->d.bytes > bytes ? large->d.bytes - bytes : bytes - large->d.bytes;
}

/* Makes a request accept only blocks that are nearer in size than `large`. Returns false if no block can be nearer. */
HK_INLINE bool hk_fit_narrow(struct hk_want *want, const struct hk_large_block *large)
{
    size_t away = hk_fit_distance(large, want->bytes);
    if (away == 0)
        return false;
    size_t most = hk_min(want->least + want->range, want->bytes + away - 1);
    want->least = hk_max(want->least + away, want->bytes + 1) - away;
    want->range = most - want->least;
    return true;
}

/* Returns the block that is nearest in size, or `otherwise` if no block fits. */
struct hk_large_block *hk_fit_nearest(const struct hk_fit *fit, const struct hk_want *want,
                                      struct hk_large_block *otherwise);
/* Unmaps cached blocks, and then cuts off slack, the oldest first, until `enough` bytes are unmapped. Takes only blocks and slack that a purge first
 * saw at least delay_ms ago. If delay_ms is 0, takes all. Cuts off slack only if delay_ms is 0 or `enough` is SIZE_MAX, because a growing buffer may
 * soon use its slack. Returns the number of unmapped bytes. */
size_t hk_large_purge(uint64_t now_ms, uint64_t delay_ms, size_t enough);
/* Leaves the cached blocks out of core dumps. Returns their bytes. Called only just before the process ends. */
size_t hk_large_leave_out_of_core(void);
/* Marks the large blocks in a range as modified. Called when a system call of the program changes the mappings of the range. */
void hk_large_note_modified(uintptr_t start, size_t size);
/* Marks every large block as modified. Called if hk_large_note_modified() could not record its range, because another thread held the lock. */
HK_ROOM void hk_large_mark_all_locked(void);
/* Takes the block that is nearest in size out of the cache, and makes it a block in use. Returns NULL if no block fits. */
HK_ROOM struct hk_large_block *hk_large_take_cached(size_t bytes, size_t align);
/* Takes the oldest cached block that is in no bin, and puts it into the bin for its size. */
HK_ROOM void hk_large_sort_one_locked(void);
/* Puts a block into the cache. Leaves it to the next purge to set idle_since, because reading the clock would double the cost of a free. */
HK_INLINE void hk_large_put_cached_locked(struct hk_large_block *large)
{
    large->idle_since = HK_LARGE_UNSEEN;
    hk_large.totals.cached += large->d.bytes;
    hk_list_push_front(&hk_large.cached, &large->link);
    if (HK_UNLIKELY(--hk_large.room_unsorted < 0))
        hk_large_sort_one_locked();
}
/* Unmaps a block. If the system refuses, returns false, and caches the block, or puts it on the list pending_unmap if it is modified. */
HK_ROOM bool hk_large_release(struct hk_large_block *large);
/* Caches a block for hk_large_keep(). The caller has set idle_since. Purges by age keep the block for the purge delay from idle_since on. */
HK_ROOM void hk_large_keep_cached_locked(struct hk_large_block *large);
/* Sets how many bytes of the mapping the program has. The rest is slack. The next purge sets its idle_since, and only a later purge cuts it off. */
HK_INLINE void hk_large_set_requested_locked(struct hk_large_block *large, size_t requested)
{
    hk_store_release(hk_large.xversion, hk_load(hk_large.xversion) + 1);
    size_t slack = hk_large_is_about(large, requested) ? 0 : large->d.bytes - requested;
    large->requested = requested;
    hk_large.totals.live += large->d.bytes - slack;
    if (slack == 0)
        return;
    hk_large.totals.cached += slack;
    large->idle_since = HK_LARGE_UNSEEN;
    hk_list_push_front(&hk_large.with_slack, &large->by_slack);
}
HK_INLINE void hk_large_unset_requested_locked(struct hk_large_block *large)
{
    hk_store_release(hk_large.xversion, hk_load(hk_large.xversion) + 1);
    size_t held = hk_large_held(large);
    hk_large.totals.live -= held;
    hk_large.totals.cached -= large->d.bytes - held;
    hk_link_leave(&large->by_slack);
}
/* Called when a new block is mapped. If a ghost has about `bytes`, counts that its block would have been reused, and drops the ghost. */
HK_ROOM void hk_large_note_if_missed_locked(size_t bytes);
/* Returns how many bytes may be cached. This is the option large_cache plus a slice, so that a block as large as the option still fits. */
HK_INLINE size_t hk_large_budget(void) { return HK_POLICY(large_cache) + HK_SLICE; }
/* The cached bytes may be at most the sum of hk_large_allowed and a quarter of the bytes in use. More cached bytes are excess, and are purged. Each
 * tick that looks for excess sets hk_large_allowed. Before the first tick, it is 8 MiB and a slice. It is HK_LARGE_NO_EXCESS if excess may stay. */
extern _Atomic size_t hk_large_allowed;
#define HK_LARGE_NO_EXCESS (SIZE_MAX / 2)
HK_INLINE size_t hk_large_excess_from_locked(void)
{
    return hk_load(hk_large_allowed) + hk_large.totals.live / HK_IDLE_PER_USED;
}
/* Unmaps the oldest blocks, and then cuts off slack, until the cache is within its budget. Then unmaps the oldest cached blocks that are excess. */
HK_ROOM void hk_large_hold_to_budget(void);
