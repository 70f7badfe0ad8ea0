/* Big state: the lists and the totals of big blocks, and their lock.
 * Threads  whoever holds the lock; but for what begins with x. */
#ifndef HK_BIG_STATE_H
#define HK_BIG_STATE_H

#include "base/list.h"
#include "base/lock.h"
#include "big/big.h"
#include "big/extents.h"
#include "big/fit.h"
#include "policy/policy.h"

/* An idle_since that the next purge is to write. */
#define HK_BIG_UNSEEN UINT64_MAX
enum { HK_BIG_GHOSTS = 32, HK_BIG_MOST_UNSORTED = 64 /* so many are looked through as fast as found */ };

extern struct hk_big {
    struct hk_lock lock;
    struct hk_list cached; /* newest first */
    struct hk_list kept;   /* cached, but no purge is to take it before its time: idle_since lies ahead; newest first */
    struct hk_big_ghost {
        size_t bytes;
        uint16_t idle_from;
        bool made_room;
    } ghosts[HK_BIG_GHOSTS]; /* what was unmapped last */
    unsigned next_ghost;
    struct hk_list spoiled; /* altered, and the system would not take them yet */
    struct hk_link *sorted; /* of `cached`: what lies from here on is in `sizes` too */
    int room_unsorted;      /* so many more may lie before it */
    struct hk_list spares; /* blocks in use whose mapping is longer than they are; newest first */
    struct hk_extents extents; /* all mappings, but for those that are just changing */
    struct hk_big_totals totals;
    _Atomic uintptr_t xlowest, xhighest; /* where mappings have ever been */
    _Atomic bool xunnoted;               /* a change was seen, but not of what */
    _Atomic uint64_t xgone; /* bytes of blocks of huge_blocks_from and more that were freed, ever */
    _Atomic size_t xon_huge_pages; /* blocks */
} hk_big;

HK_INLINE struct hk_slab *hk_big_of_link(struct hk_link *link) { return hk_container_of(link, struct hk_slab, link); }
HK_INLINE struct hk_slab *hk_big_of_slack(struct hk_link *link) { return hk_container_of(link, struct hk_slab, by_slack); }

/* The most that a block may have which serves so many bytes. */
HK_INLINE size_t hk_big_loosest(size_t bytes) { return bytes * HK_POLICY(big_fit) / 100; }

#endif
