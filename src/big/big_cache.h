/* Big cache: freed big blocks kept for reuse, and the slack of those in use; their budget and their age; the ghosts of blocks unmapped
 * lately, by which the learner sees that a block would have been reused.
 *
 *   free -> cached, newest first -> alloc: the nearest in size       idle, or over the budget -> unmapped; a ghost stays
 *
 * Owns     the lists of the state; `requested` and `idle_since` of big blocks.
 * Threads  any; `_locked`: the holder of the big lock. Mapping and unmapping happen outside it. */
#ifndef HK_BIG_CACHE_H
#define HK_BIG_CACHE_H

#include "big/big_state.h"

/* Unmaps cached blocks, and cuts slack, that a purge delay_ms ago or earlier found there; all of it if delay_ms is 0. Returns bytes. */
size_t hk_big_purge(uint64_t now_ms, uint64_t delay_ms);
/* The same, the oldest blocks first, until it is `enough` bytes. Slack, into which a growing buffer is about to grow, is cut last, and
 * only if delay_ms is 0. Returns bytes. */
size_t hk_big_purge_oldest(uint64_t now_ms, uint64_t delay_ms, size_t enough);

/* The cached block that is nearest in size, now in use; NULL if none serves. */
HK_ROOM struct hk_big_block *hk_big_take_cached(size_t bytes, size_t align);
HK_ROOM void hk_big_put_cached_locked(struct hk_big_block *big);
/* Caches a block that the system refuses to unmap. */
HK_ROOM void hk_big_put_back_locked(struct hk_big_block *big);
/* Caches a block that no purge by age takes before idle_since + the purge delay. */
HK_ROOM void hk_big_keep_cached_locked(struct hk_big_block *big);
HK_ROOM void hk_big_leave_sizes_locked(struct hk_big_block *big);
/* Requires a block that is not altered. */
HK_INLINE void hk_big_leave_cache_locked(struct hk_big_block *big)
{
    hk_big.totals.cached -= big->d.bytes;
    if (HK_LIKELY(!hk_link_linked(&big->by_size)))
        hk_big.room_unsorted++;
    else
        hk_big_leave_sizes_locked(big);
    hk_link_remove(&big->link);
}
/* Sets an altered block aside: it serves no request until the system unmaps it. */
HK_ROOM void hk_big_spoil_locked(struct hk_big_block *big);
/* Sets the part of the mapping that the program has. The rest is slack, which stays for the block to grow into until the next purge but
 * one. */
HK_ROOM void hk_big_set_requested_locked(struct hk_big_block *big, size_t requested);
HK_ROOM void hk_big_unset_requested_locked(struct hk_big_block *big);
/* Called when a block is mapped: if one of about its size was unmapped lately, that one would have been reused. */
HK_ROOM void hk_big_note_if_missed_locked(size_t bytes);
HK_ROOM bool hk_big_over_budget(const struct hk_big_block *oldest, uint64_t budget);
/* Unmaps the oldest blocks, then cuts slack, until the cache is within its budget. */
HK_ROOM void hk_big_hold_to_budget(void);

#endif
