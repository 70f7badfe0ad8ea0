/* Owner: who holds slabs: a thread, by its number; and where strangers leave the blocks that they free for it.
 *
 *   thread B (stranger)                      thread A (the owner)
 *   free(p) -> outbox: parcel -- one CAS a parcel --> xinbox[class] --xchg NULL--> A's bin, or the bitmaps
 *
 * Owns       the table of owners, and each owner's shelves and inboxes.
 * Invariant  a block in a parcel still counts as taken in its slab. An owner's memory is never unmapped, so that a stale
 *            number in a stranger's hand is harmless: a parcel for who is gone is refused, and its blocks are looked at again.
 *            Its pages may go when it has no thread: zeros are an owner that refuses all.
 * Threads    shelves: the owner; where there is a background thread, both, under a lock. inboxes: push any,
 *            lock-free; drain the owner, and thieves that try, under a lock. */
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

enum { HK_PARCEL_BLOCKS = 62 };
#define HK_PARCEL_BYTES (64 * HK_KIB)

struct hk_parcel {
    struct hk_parcel *next;
    uint32_t count; /* 0: the parcel is itself the block (no memory could be had for a parcel) */
    uint16_t class;
    uint16_t room; /* the count at which it is sent */
    void *blocks[HK_PARCEL_BLOCKS];
};

struct hk_shelf {
    struct hk_list partial; /* slabs with free blocks */
    struct hk_list full;
    uint32_t slabs; /* on both */
};

struct hk_owner {
    /* constant after init */
    uint32_t id;
    /* the owner's; of these, the shelves and what follows them also the background thread's, under the lock */
    struct hk_thread_counts counts;
    struct hk_ring ring;
    struct hk_lock shelves_lock;
    bool open;               /* it has a thread */
    _Atomic uint64_t xawake; /* when it last looked at the clock, ms */
    bool sweep_pays;         /* for growth */
    unsigned sweep_class;    /* how far the sweep over the shelves has come */
    unsigned sweep_left;     /* shelves to go */
    struct hk_walk sweep;
    struct hk_shelf shelves[HK_CLASSES];
    /* of whoever drains, under the lock */
    struct hk_lock drain_lock;
    struct hk_parcel *backlog[HK_CLASSES]; /* taken from the inbox, not yet unpacked */
    /* shared */
    _Atomic uint64_t xpending HK_ALIGNED(HK_CACHE_LINE); /* bit c: inbox c may hold parcels */
    _Atomic(struct hk_parcel *) xinbox[HK_CLASSES];
};
_Static_assert(HK_CLASSES <= 64, "a bit of xpending for each class");

/* Blocks in inboxes and backlogs, by class. A parcel's blocks may be drained before they are added: seldom below 0. */
extern _Atomic int64_t hk_remote_blocks[HK_CLASSES];

/* Blocks of a class that a parcel takes. */
HK_INLINE size_t hk_parcel_room(unsigned class)
{
    return hk_min(HK_PARCEL_BLOCKS, hk_max(1, HK_PARCEL_BYTES / hk_classes[class].size));
}

HK_INLINE uint32_t hk_parcel_blocks(const struct hk_parcel *parcel) { return parcel->count == 0 ? 1 : parcel->count; }

/* Gives a zeroed owner its number, for good; false if there is none left. */
bool hk_owner_register(struct hk_owner *owner);
/* Nobody but the owner looks at its shelves, as long as there is no background thread: then it takes no lock. */
HK_INLINE void hk_shelves_hold(struct hk_owner *owner)
{
    if (HK_UNLIKELY(hk_options.background != 0))
        hk_lock(&owner->shelves_lock);
}
HK_INLINE void hk_shelves_leave(struct hk_owner *owner)
{
    if (HK_UNLIKELY(hk_options.background != 0))
        hk_unlock(&owner->shelves_lock);
}

/* Is it a thread's now? */
bool hk_owner_is_open(struct hk_owner *owner);
/* Empty shelves and open inboxes: at the start of a thread. */
void hk_owner_open(struct hk_owner *owner);

/* Numbers given so far are HK_FIRST_OWNER .. hk_owner_end() - 1. */
uint32_t hk_owner_end(void);
struct hk_owner *hk_owner_by_id(uint32_t id);

/* Of a number given so far, and its neighbours. */
struct hk_owner_bits *hk_owner_bits(uint32_t id);

/* The memory of owners without a thread is given back, from now on until they are roused: first + i for each bit i. Zeros, as
 * which they read then, are an owner that is closed. */
void hk_owners_rest(uint32_t first, uint64_t bits);
void hk_owners_rouse(uint32_t first, uint64_t bits);
bool hk_owner_rests(uint32_t id);
/* One whose memory was given back is wanted again. */
void hk_owner_wake(struct hk_owner *owner, uint32_t id);
/* The first number from `from` on whose memory was not given back, for who looks at all; hk_owner_end() if there is none. */
uint32_t hk_owner_next(uint32_t from);

struct hk_parcel *hk_parcel_new(void); /* NULL if the system refuses */
void hk_parcel_drop(struct hk_parcel *parcel);
/* Parcels that exist but hold nothing, and bytes of all. */
size_t hk_parcels_bytes(void);

/* False if the inbox is closed: the parcel stays the caller's. */
bool hk_inbox_post(struct hk_owner *owner, struct hk_parcel *parcel);
/* At most `most` parcels of a class, chained; the caller drops them. */
struct hk_parcel *hk_inbox_take(struct hk_owner *owner, unsigned class, unsigned most);
/* The same, by another thread, from an owner that has not looked at the clock for so long; NULL if it has, or has nothing. */
struct hk_parcel *hk_inbox_steal(struct hk_owner *owner, unsigned class, unsigned most, uint64_t asleep_since);
/* They refuse what comes from now on, until opened again: for a thread's end, and for fork. What came before can be taken. */
void hk_inboxes_close(struct hk_owner *owner);
void hk_inbox_open(struct hk_owner *owner, unsigned class);
/* In a fork child, for an owner that it does not have: closed, and nothing that came is believed. */
void hk_inbox_forget(struct hk_owner *owner, unsigned class);
/* In a fork child: counts hk_remote_blocks anew, from the backlog of the only owner. */
void hk_remote_recount(const struct hk_owner *survivor);

/* `self` is the forking thread's owner, NULL if it has none: nobody else drains it meanwhile, and it is the only one in the
 * child that has a thread. */
void hk_owners_fork_prepare(struct hk_owner *self);
void hk_owners_fork_parent(struct hk_owner *self);
void hk_owners_fork_child(struct hk_owner *self);

#endif
