/* Owner: who holds slabs: a thread, by its number; and its inboxes: queues of slabs of its own in which strangers freed blocks.
 *
 *   thread B (stranger)                                      thread A (the owner)
 *   free(p) -> remote bit of p's slab (remote.h) -- the first since A looked: CAS --> xinbox[class] --xchg NULL--> A's bitmaps
 *
 * Owns       the table of owners, and each owner's lists and inboxes.
 * Invariant  a slab is in an inbox or a backlog only while it is marked as queued, and in one at most. An owner's memory is never
 *            unmapped, so that a stale number in a stranger's hand is harmless: a slab for who is gone is refused, and whose it is
 *            is looked at again; one that is somebody else's by now is sent on by who takes it out.
 *            Its pages may go when it has no thread: zeros are an owner that refuses all.
 * Threads    lists: the owner; where there is a background thread, both, under a lock. inboxes: push any,
 *            lock-free; drain the owner, and whoever is short of blocks or gives back memory, under a lock. */
#ifndef HK_OWNER_H
#define HK_OWNER_H

#include "base/bits.h"
#include "base/list.h"
#include "base/lock.h"
#include "count/ring.h"
#include "count/stats.h"
#include "policy/classes.h"
#include "policy/options.h"
#include "slab/slab.h"

/* What is known of 64 owners, a bit for each. */
struct hk_owner_bits {
    _Atomic uint64_t xresting; /* their memory was given back */
    uint64_t waiting, aged;    /* the pool's of thread caches, which holds its lock */
};

struct hk_slab_list {
    struct hk_list partial; /* slabs with free blocks */
    struct hk_list full;
    uint32_t slabs; /* on both */
    uint32_t free;  /* blocks in them that were, as the last sweep found it */
};

struct hk_owner {
    /* constant after init */
    uint32_t id;
    /* the owner's; of these, the lists and what follows them also the background thread's, under the lock */
    struct hk_thread_counts counts;
    struct hk_ring ring;
    struct hk_lock slab_lists_lock;
    bool open;               /* it has a thread */
    _Atomic uint64_t xawake; /* when it last looked at the clock, ms */
    bool sweep_reclaims;         /* for growth */
    unsigned sweep_class;    /* how far the sweep over the lists has come */
    unsigned sweep_left;     /* lists to go */
    struct hk_walk sweep;
    uint32_t swept_free; /* blocks that it has found free on this list */
    struct hk_slab_list slab_lists[HK_CLASSES];
    uint32_t slabs; /* on all lists */
    uint8_t lodge_waits[HK_CLASSES]; /* so many slabs are cut before room is looked for in those of other classes again */
    /* of whoever drains, under the lock */
    struct hk_lock drain_lock;
    struct hk_slab *backlog[HK_CLASSES]; /* taken from the inbox, not yet looked at */
    /* shared */
    _Atomic uint64_t xpending HK_ALIGNED(HK_CACHE_LINE); /* bit c: inbox c may hold slabs */
    _Atomic(struct hk_slab *) xinbox[HK_CLASSES];
};
_Static_assert(HK_CLASSES <= 64, "a bit of xpending for each class");

/* Slabs in inboxes and backlogs, by class. One may be taken out before it is added: seldom below 0. */
extern _Atomic int64_t hk_queued_slabs[HK_CLASSES];

/* Gives a zeroed owner its number, for good; false if there is none left. */
bool hk_owner_register(struct hk_owner *owner);
/* May others come to the lists of owners? As long as not, owners take no lock. Set by the only thread that there is, for good: none
 * is then at its lists. */
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

/* Is it a thread's now? */
bool hk_owner_is_open(struct hk_owner *owner);
/* Empty lists and open inboxes: at the start of a thread. */
void hk_owner_open(struct hk_owner *owner);

/* Numbers given so far are HK_FIRST_OWNER .. hk_owner_end() - 1. */
uint32_t hk_owner_end(void);
struct hk_owner *hk_owner_by_id(uint32_t id);

/* Of a number given so far, and its neighbours. */
struct hk_owner_bits *hk_owner_bits(uint32_t id);

/* The memory of owners without a thread is given back, from now on until they are roused: first + i for each bit i. Zeros, as
 * which they read then, are an owner that is closed. */
void hk_owners_rest(uint32_t first, uint64_t bits);
void hk_owners_wake(uint32_t first, uint64_t bits);
bool hk_owner_rests(uint32_t id);
/* One whose memory was given back is wanted again. */
void hk_owner_wake(struct hk_owner *owner, uint32_t id);
/* The first number from `from` on whose memory was not given back, for who looks at all; hk_owner_end() if there is none. */
uint32_t hk_owner_next(uint32_t from);

/* A slab that the caller is to queue. False if the inbox is closed: it is still to be queued. */
bool hk_inbox_push(struct hk_owner *owner, struct hk_slab *slab);
/* At most `most` slabs of a class, chained by xnext: they are the caller's to look at, and not all may be the owner's still. */
struct hk_slab *hk_inbox_take(struct hk_owner *owner, unsigned class, unsigned most);
/* The same, by another thread, from an owner that has not looked at the clock for so long; NULL if it has, or has nothing. */
struct hk_slab *hk_inbox_steal(struct hk_owner *owner, unsigned class, unsigned most, uint64_t asleep_since);
/* One, for who looks at each of them once and sends it back; `last` says that no more of those that were there follow. */
struct hk_slab *hk_inbox_take_one(struct hk_owner *owner, unsigned class, bool *last);
HK_INLINE struct hk_slab *hk_inbox_next(const struct hk_slab *slab) { return hk_load(slab->xnext); }
/* They refuse what comes from now on, until opened again: for a thread's end. What came before can be taken. */
void hk_inboxes_close(struct hk_owner *owner);
/* In a fork child, where nothing that came is believed: closed, or, for the only thread, empty. */
void hk_inboxes_restart(const struct hk_owner *survivor);

/* At the start: fork takes its lock. */
void hk_owners_init(void);
/* In a fork child: `self` is the forking thread's owner, NULL if it has none: the only one in the child that has a thread. */
void hk_owners_fork_child(const struct hk_owner *self);

#endif
