/* Large state: the lists and the totals of large blocks, and their lock.
 * Owns     struct hk_large; the other files of the room change it.
 * Threads  the holder of the lock, but for the fields that begin with x. */
#ifndef HK_LARGE_STATE_H
#define HK_LARGE_STATE_H

#include "base/list.h"
#include "base/lock.h"
#include "large/large_block.h"
#include "large/extents.h"
#include "large/fit.h"
#include "os/os.h"
#include "policy/policy.h"

/* An idle_since that the next purge replaces by its own time. */
#define HK_LARGE_UNSEEN UINT64_MAX
/* A search through so many blocks costs no more than one by size. */
enum { HK_LARGE_GHOSTS = 32, HK_LARGE_MOST_UNSORTED = 64 };

struct hk_large_totals {
    size_t live;   /* bytes */
    size_t blocks; /* in use */
    size_t cached; /* bytes, slack included */
};

extern struct hk_large {
    struct hk_lock lock;
    struct hk_list cached; /* newest first */
    struct hk_list kept;   /* cached until a time to come, idle_since + the purge delay; newest first */
    struct hk_large_ghost {
        size_t bytes;
        uint16_t idle_from;
        bool made_room;        /* unmapped because the cache was over its budget */
    } ghosts[HK_LARGE_GHOSTS]; /* the blocks unmapped last */
    unsigned next_ghost;
    struct hk_list pending_unmap; /* modified blocks that the system has not unmapped yet */
    struct hk_link *sorted;       /* of `cached`: from here on, blocks are also in the bins of large_cache.c */
    int room_unsorted;            /* blocks that may still be added before `sorted` */
    struct hk_list with_slack;    /* blocks in use that have slack; newest first */
    struct hk_extents extents;    /* all mappings, but for those that are being changed */
    struct hk_large_totals totals;
    _Atomic uintptr_t xlowest, xhighest; /* the range in which mappings have ever been */
    _Atomic uint64_t xversion;           /* rises whenever a block comes into use, is resized or freed */
    _Atomic bool xunnoted;  /* a mapping was modified while the lock was taken: any block may be the modified one */
    _Atomic uint64_t xgone; /* bytes of blocks of huge_blocks_from and more that were ever freed */
    _Atomic size_t xon_huge_pages; /* blocks */
} hk_large;

void hk_large_init(void);
/* For a caller that may be a signal handler, which has perhaps interrupted the thread that holds the lock: a wait would never end. */
HK_ROOM bool hk_large_lock_in_some_tries(void);
void hk_large_total(struct hk_large_totals *totals);

HK_INLINE struct hk_large_block *hk_large_of_link(struct hk_link *link)
{
    return hk_container_of(link, struct hk_large_block, link);
}
HK_INLINE struct hk_large_block *hk_large_of_slack(struct hk_link *link)
{
    return hk_container_of(link, struct hk_large_block, by_slack);
}

/* The longest mapping that may serve a request of so many bytes. */
HK_INLINE size_t hk_large_loosest(size_t bytes) { return bytes * HK_POLICY(large_fit) / 100; }

#endif
