/* Large cache: freed large blocks kept for reuse, and the slack of those in use; their budget and their age; the ghosts of blocks unmapped
 * lately, by which the learner sees that a block would have been reused. A block whose mapping the program changes by mprotect, mlock, madvise,
 * mremap and the like serves no request and is unmapped when it is freed: the next owner of the memory must not see the change.
 *
 *   free -> cached, newest first -> alloc: the nearest in size       idle, or over the budget -> unmapped; a ghost stays
 *   Older blocks are also in bins of sizes (hk_fit): eight for each octave, each newest first; a bitmap says which are filled.
 *
 * Owns       the lists of the state, the bins; `requested`, `idle_since`, `by_size` and `modified` of large blocks.
 * Invariant  a search of the bins looks at 64 blocks at most, however many there are, and takes the best of these.
 * Threads    any; `_locked`, hk_fit: the holder of the large lock. Mapping and unmapping happen outside it. hk_large_note_modified() may run in
 *            a signal handler, and never waits for a lock. */
#ifndef HK_LARGE_CACHE_H
#define HK_LARGE_CACHE_H

#include "large/large_state.h"

enum {
    HK_FIT_STEPS = 8, /* bins of an octave */
    HK_FIT_BINS = (HK_ADDRESS_BITS - HK_SLICE_SHIFT) * HK_FIT_STEPS,
};

struct hk_fit {
    size_t count;
    uint64_t filled[(HK_FIT_BINS + 63) / 64];
    struct hk_list bins[HK_FIT_BINS]; /* each is initialized when it is first filled */
};

struct hk_want { /* a request */
    size_t bytes;
    size_t least; /* a mapping shorter than `bytes` is lengthened */
    size_t range; /* a mapping longer than least + range would waste memory */
    size_t align;
};

/* A mapping of half of the request serves if it may move; a mapping that has to be aligned may not move. */
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

/* Wants only nearer blocks than this one, which serves, from here on. Returns false if none can be nearer. */
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

/* The block nearest in size; `otherwise` if none serves. */
struct hk_large_block *hk_fit_nearest(const struct hk_fit *fit, const struct hk_want *want,
                                      struct hk_large_block *otherwise);
/* Unmaps cached blocks, and cuts slack, that a purge delay_ms ago or earlier found there; all of it if delay_ms is 0. Returns bytes. */
size_t hk_large_purge(uint64_t now_ms, uint64_t delay_ms);
/* The same, the oldest blocks first, until it is `enough` bytes. Slack, into which a growing buffer is about to grow, is cut last, and
 * only if delay_ms is 0. Returns bytes. */
size_t hk_large_purge_oldest(uint64_t now_ms, uint64_t delay_ms, size_t enough);
/* Called before the program changes the mappings of this range. Marks the large blocks in it as modified. */
void hk_large_note_modified(uintptr_t start, size_t size);
/* Marks every large block as modified, because a range could not be noted while the lock was held. */
HK_ROOM void hk_large_mark_all_locked(void);
/* The cached block that is nearest in size, now in use; NULL if none serves. */
HK_ROOM struct hk_large_block *hk_large_take_cached(size_t bytes, size_t align);
HK_ROOM void hk_large_put_cached_locked(struct hk_large_block *large);
/* Caches a block that the system refuses to unmap. */
HK_ROOM void hk_large_put_back_locked(struct hk_large_block *large);
/* Caches a block that no purge by age takes before idle_since + the purge delay. */
HK_ROOM void hk_large_keep_cached_locked(struct hk_large_block *large);
HK_ROOM void hk_large_leave_sizes_locked(struct hk_large_block *large);
/* Requires a block that is not modified. */
HK_INLINE void hk_large_leave_cache_locked(struct hk_large_block *large)
{
    hk_large.totals.cached -= large->d.bytes;
    if (HK_LIKELY(!hk_link_linked(&large->by_size)))
        hk_large.room_unsorted++;
    else
        hk_large_leave_sizes_locked(large);
    hk_link_remove(&large->link);
}
/* Sets a modified block aside: it serves no request until the system unmaps it. */
HK_ROOM void hk_large_spoil_locked(struct hk_large_block *large);
/* Sets the part of the mapping that the program has. The rest is slack, which stays for the block to grow into until the next purge but one. */
HK_INLINE void hk_large_set_requested_locked(struct hk_large_block *large, size_t requested)
{
    hk_store_release(hk_large.xversion, hk_load(hk_large.xversion) + 1);
    large->requested = requested;
    if (hk_large_is_about(large, requested)) {
        hk_large.totals.live += large->d.bytes;
        return;
    }
    hk_large.totals.live += requested;
    hk_large.totals.cached += large->d.bytes - requested;
    large->idle_since = HK_LARGE_UNSEEN;
    hk_list_push_front(&hk_large.with_slack, &large->by_slack);
}
HK_INLINE void hk_large_unset_requested_locked(struct hk_large_block *large)
{
    hk_store_release(hk_large.xversion, hk_load(hk_large.xversion) + 1);
    if (!hk_link_linked(&large->by_slack)) {
        hk_large.totals.live -= large->d.bytes;
        return;
    }
    hk_large.totals.live -= large->requested;
    hk_large.totals.cached -= large->d.bytes - large->requested;
    hk_link_remove(&large->by_slack);
}
/* Called when a block is mapped. Counts a miss if a block of about its size was unmapped lately, which would have been reused. */
HK_ROOM void hk_large_note_if_missed_locked(size_t bytes);
HK_ROOM bool hk_large_over_budget(const struct hk_large_block *oldest, uint64_t budget);
/* Unmaps the oldest blocks, then cuts slack, until the cache is within its budget. */
HK_ROOM void hk_large_hold_to_budget(void);

#endif
