/* Big cache: freed big blocks kept for reuse, and the slack behind those in use; their budget and their age; the ghosts of what was
 * unmapped last, by which the learner sees that a block was wanted again.
 *
 *   free -> cached, newest first -> alloc: the nearest in size       idle or over budget -> unmapped, a ghost stays
 *
 * Owns     the lists of the state; `requested` and `idle_since` of the descriptors.
 * Threads  any; `_locked`: the holder of the big lock. Mapping and unmapping happen outside it. */
#ifndef HK_BIG_CACHE_H
#define HK_BIG_CACHE_H

#include "big/big_state.h"

/* The cached block that is nearest in size, now in use; NULL if none serves. */
HK_ROOM struct hk_slab *hk_big_take_cached(size_t bytes, size_t align);
HK_ROOM void hk_big_put_cached_locked(struct hk_slab *slab);
/* A block that the system would not unmap. */
HK_ROOM void hk_big_put_back_locked(struct hk_slab *slab);
/* No purge by age takes it before idle_since + the purge delay. */
HK_ROOM void hk_big_keep_cached_locked(struct hk_slab *slab);
HK_ROOM void hk_big_leave_sizes_locked(struct hk_slab *slab);
/* Not for an altered one. */
HK_INLINE void hk_big_leave_cache_locked(struct hk_slab *slab)
{
    hk_big.totals.cached -= slab->bytes;
    if (HK_LIKELY(!hk_link_linked(&slab->by_size)))
        hk_big.room_unsorted++;
    else
        hk_big_leave_sizes_locked(slab);
    hk_link_remove(&slab->link);
}
/* An altered block serves no request: it waits for the system to unmap it. */
HK_ROOM void hk_big_spoil_locked(struct hk_slab *slab);
/* The part of its mapping that the program has; the rest is slack, which stays for the block to grow into until the next purge but one. */
HK_ROOM void hk_big_set_requested_locked(struct hk_slab *slab, size_t requested);
HK_ROOM void hk_big_unset_requested_locked(struct hk_slab *slab);
/* A block is mapped anew: if one as large has just been unmapped, that one was wanted again. */
HK_ROOM void hk_big_note_if_missed_locked(size_t bytes);
HK_ROOM bool hk_big_over_budget(const struct hk_slab *oldest, uint64_t budget);
/* Unmaps the oldest blocks, then cuts slack, until the cache is within its budget. */
HK_ROOM void hk_big_hold_to_budget(void);

#endif
