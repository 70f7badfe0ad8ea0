/* Large cache: freed large blocks kept for reuse, and the slack of those in use; their budget and their age; the ghosts of blocks unmapped
 * lately, by which the learner sees that a block would have been reused.
 *
 *   free -> cached, newest first -> alloc: the nearest in size       idle, or over the budget -> unmapped; a ghost stays
 *
 * Owns     the lists of the state; `requested` and `idle_since` of large blocks.
 * Threads  any; `_locked`: the holder of the large lock. Mapping and unmapping happen outside it. */
#ifndef HK_LARGE_CACHE_H
#define HK_LARGE_CACHE_H

#include "large/large_state.h"

/* Unmaps cached blocks, and cuts slack, that a purge delay_ms ago or earlier found there; all of it if delay_ms is 0. Returns bytes. */
size_t hk_large_purge(uint64_t now_ms, uint64_t delay_ms);
/* The same, the oldest blocks first, until it is `enough` bytes. Slack, into which a growing buffer is about to grow, is cut last, and
 * only if delay_ms is 0. Returns bytes. */
size_t hk_large_purge_oldest(uint64_t now_ms, uint64_t delay_ms, size_t enough);

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
/* Sets an modified block aside: it serves no request until the system unmaps it. */
HK_ROOM void hk_large_spoil_locked(struct hk_large_block *large);
/* Sets the part of the mapping that the program has. The rest is slack, which stays for the block to grow into until the next purge but
 * one. */
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
/* Called when a block is mapped: if one of about its size was unmapped lately, that one would have been reused. */
HK_ROOM void hk_large_note_if_missed_locked(size_t bytes);
HK_ROOM bool hk_large_over_budget(const struct hk_large_block *oldest, uint64_t budget);
/* Unmaps the oldest blocks, then cuts slack, until the cache is within its budget. */
HK_ROOM void hk_large_hold_to_budget(void);

#endif
