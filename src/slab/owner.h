/* Owner: the holder of slabs, which is a thread. It has a number, lists of its slabs, and inboxes, which are queues of its slabs in which other
 * threads freed blocks.
 *
 *   thread B                                                   thread A, the owner
 *   free(p) -> remote bit of p's slab -- first since A drained: CAS --> xinbox[class] -- xchg --> backlog --> A's bitmaps
 *
 * Owns       the table of owners, and the lists and inboxes of each.
 * Invariant  a slab is in an inbox or a backlog only while it is marked as queued, and in one at most. The memory of an owner is never
 *            unmapped, so a thread that holds a stale number finds a closed inbox and reads the slab's owner again; a slab whose holder
 *            has changed since it was queued is sent on by the thread that takes it out.
 *            The pages of an owner without a thread may be purged, because zeros mean a closed owner.
 * Threads    lists: the owner; if there is a background thread, both, under a lock. Inboxes: push any, lock-free; take, under a
 *            lock, the owner and threads that are short of blocks or purge memory. */
#ifndef HK_OWNER_H
#define HK_OWNER_H

#include "base/lock.h"
#include "count/ring.h"
#include "count/stats.h"
#include "policy/options.h"
#include "slab/slab.h"

/* Flags of 64 owners, a bit for each. */
struct hk_owner_bits {
    _Atomic uint64_t xresting; /* the memory of the owner was purged */
    uint64_t waiting, aged;    /* used by tcache/pool.c, under its lock */
};

struct hk_slab_list {
    struct hk_list partial; /* slabs with free blocks */
    struct hk_list full;
    uint32_t slabs; /* number of slabs on both lists */
    uint32_t free;  /* free blocks on `partial` at the last sweep, without those that joined blocks took since */
};

struct hk_owner {
    /* constant after init */
    uint32_t id;
    /* used by the owner; from `open` on, under the lock if there is a background thread */
    struct hk_thread_counts counts;
    struct hk_ring ring;
    struct hk_lock slab_lists_lock;
    bool open;               /* the owner has a thread */
    _Atomic uint64_t xawake; /* ms; when the owner last read the clock */
    bool sweep_reclaims;     /* the sweep is for growth */
    unsigned sweep_class;    /* class of the list that the sweep is at */
    unsigned sweep_left;     /* lists that the sweep has left */
    struct hk_walk sweep;
    uint32_t swept_free; /* free blocks that the sweep has counted on this list */
    struct hk_slab_list slab_lists[HK_CLASSES];
    const void *blank;              /* a block that was allocated for the first time, and is zero */
    uint32_t slabs;                 /* number of slabs on all lists */
    uint8_t join_waits[HK_CLASSES]; /* slabs to make before the next try to join */
    /* used by the thread that drains, under the lock */
    struct hk_lock drain_lock;
    struct hk_slab *backlog[HK_CLASSES]; /* slabs taken from the inbox, not yet drained */
    /* shared */
    _Atomic uint64_t xpending HK_ALIGNED(HK_CACHE_LINE); /* bit c: inbox c may hold slabs */
    _Atomic(struct hk_slab *) xinbox[HK_CLASSES];
};
_Static_assert(HK_CLASSES <= 64, "a bit of xpending for each class");

/* The number of slabs in inboxes and backlogs, by class. It may be below 0 for a moment, because a slab may be subtracted before it is added. */
extern _Atomic int64_t hk_queued_slabs[HK_CLASSES];

/* Gives a zeroed owner its number for the life of the process. Returns false if no number is left, or if memory is refused. */
bool hk_owner_register(struct hk_owner *owner);
/* True if other threads may use the lists of owners. While it is false, owners take no lock. Set for good while the process has one thread. */
extern bool hk_slab_lists_shared;
void hk_slab_lists_share(void);

HK_INLINE void hk_slab_lists_lock(struct hk_owner *owner)
{
    if (HK_UNLIKELY(hk_slab_lists_shared))
        hk_lock(&owner->slab_lists_lock);
}
HK_INLINE void hk_slab_lists_unlock(struct hk_owner *owner)
{
    if (HK_UNLIKELY(hk_slab_lists_shared))
        hk_unlock(&owner->slab_lists_lock);
}

/* Returns true if the owner has a thread. */
bool hk_owner_is_open(struct hk_owner *owner);
/* Empties the lists and opens the inboxes, at the start of a thread. */
void hk_owner_open(struct hk_owner *owner);
/* Returns the number behind the last one given so far. The first one is HK_FIRST_OWNER. */
uint32_t hk_owner_end(void);
struct hk_owner *hk_owner_by_id(uint32_t id);
/* Returns the flags of an owner whose number has been given. */
struct hk_owner_bits *hk_owner_bits(uint32_t id);
/* rest marks owners without a thread as purged until they are woken. Bit i stands for the number first + i. The memory of a purged owner is zero. */
void hk_owners_rest(uint32_t first, uint64_t bits);
void hk_owners_wake(uint32_t first, uint64_t bits);
bool hk_owner_rests(uint32_t id);
/* Initializes a purged owner that will get a thread. */
void hk_owner_wake(struct hk_owner *owner, uint32_t id);
/* Returns the first number from `from` on whose memory was not purged, or hk_owner_end() if there is none. Walks over all owners use it. */
uint32_t hk_owner_next(uint32_t from);
/* Queues a slab. Returns false if the inbox is closed, and the caller must then find the slab's new owner. */
bool hk_inbox_push(struct hk_owner *owner, struct hk_slab *slab);
/* Takes up to `most` slabs of a class, chained by xnext, for the caller to drain. Some may have another holder by now. */
struct hk_slab *hk_inbox_take(struct hk_owner *owner, unsigned class, unsigned most);
/* Takes slabs for a thread that is short of blocks. Returns NULL if the owner has read the clock after `asleep_since`, or has no such slab. */
struct hk_slab *hk_inbox_steal(struct hk_owner *owner, unsigned class, unsigned most, uint64_t asleep_since);
/* Takes one slab, for a walk that visits each slab once and sends it back. Sets *last to true if the walk is complete. */
struct hk_slab *hk_inbox_take_one(struct hk_owner *owner, unsigned class, bool *last);
HK_INLINE struct hk_slab *hk_inbox_next(const struct hk_slab *slab) { return hk_load(slab->xnext); }
/* Makes the inboxes refuse slabs when a thread ends. Slabs that were queued before can still be taken. */
void hk_inboxes_close(struct hk_owner *owner);
/* Drops all queues in a fork child. The survivor's inboxes are then open, and all others closed. */
void hk_inboxes_restart(const struct hk_owner *survivor);
/* Registers the lock for fork. */
void hk_owners_init(void);
/* Resets the locks in a fork child, and closes all owners but `self`, which is the owner of the forking thread and may be NULL. */
void hk_owners_fork_child(const struct hk_owner *self);

#endif
