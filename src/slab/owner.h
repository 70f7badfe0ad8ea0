/* An owner is a thread in its role as the holder of slabs. It has a number, lists of its slabs, and an inbox for each class. If a thread frees a
 * block of another owner's slab, the thread queues the slab in that owner's inbox.
 *
 *   thread B frees p   -> sets the remote bit of p; if the slab is not queued, pushes it to xinbox[class] of its owner A (compare-and-swap)
 *   thread A drains    -> takes all slabs out of its inbox at once (exchange), keeps them as backlog, and frees their remote blocks
 *
 * Owns       This file owns the table of owners, and the lists and inboxes of each owner.
 * Invariant  A slab is in at most one inbox or backlog, and only while it is marked as queued. The memory of an owner is never unmapped. Therefore a
 *            thread that uses the number of an ended owner finds a closed inbox, and reads the slab's owner again. A queued slab may get another
 *            holder. The thread that takes this slab out sends it on. An owner without a thread may be purged, because zeros mean closed.
 * Threads    The owner uses its lists. If there is a background thread, the lists are used under a lock. Any thread may push a slab into an inbox
 *            without a lock. The owner, threads that are short of blocks, and threads that purge memory take slabs out under a lock. */
#pragma once

#include "base/lock.h"
#include "count/ring.h"
#include "count/stats.h"
#include "slab/slab_purge.h"

/* The flags of 64 owners. In each word, each owner has one bit. */
struct hk_owner_bits {
    _Atomic uint64_t xresting; /* set if the memory of the owner is purged */
    uint64_t waiting, aged;    /* used by tcache/pool.c, under the pool's lock */
};

struct hk_slab_list {
    struct hk_list partial; /* slabs with free blocks */
    struct hk_list full;
    uint32_t slabs; /* number of slabs on both lists */
    uint32_t free;  /* number of free blocks on `partial` at the last sweep, minus the blocks joined since */
};

/* Describes an owner's slabs at the last look for a drift of block sizes (sizes_drift() in slab_heap.c). */
struct hk_drift {
    size_t bytes;    /* bytes of the slabs of blocks of up to 8 KiB */
    size_t idle;     /* those of `bytes` that were free in classes without requests */
    uint32_t slabs;  /* number of the slabs of all classes */
    uint32_t made;   /* number of slabs that join_smallest() has taken since the look */
    unsigned points; /* a look with the sign of a drift adds 2, up to 6; any other look subtracts 1 */
};

/* Where the blocks of a refill came from. DRAINED are remote frees, also stolen ones. ADOPTED are from abandoned slabs or slabs of idle threads. */
enum hk_source { HK_SOURCE_DEPOT, HK_SOURCE_OWN, HK_SOURCE_DRAINED, HK_SOURCE_ADOPTED, HK_SOURCE_NEW, HK_SOURCES };

struct hk_owner {
    /* The number does not change after the owner was registered. */
    uint32_t id;
    /* The owner uses these fields. xopen and the fields after it need slab_lists_lock if there is a background thread. */
    struct hk_thread_counts counts;
    struct hk_ring ring;
    struct hk_lock slab_lists_lock;
    _Atomic bool xopen;       /* true while the owner has a thread; any thread may read it without the lock */
    _Atomic uint64_t xawake;  /* time in ms at which the owner last read the clock; UINT64_MAX before the first time */
    _Atomic uint64_t xunused; /* bit c is set if a sweep found that the owner does not use class c */
    enum hk_sweep_why sweep_why;
    unsigned sweep_class; /* class of the list at which the sweep is */
    unsigned sweep_left;  /* number of lists that the sweep must still visit */
    struct hk_walk sweep;
    uint32_t swept_free;      /* number of free blocks that the sweep has counted on the list of sweep_class */
    _Atomic size_t xreleased; /* bytes of all released slabs, without the parts that were purged before */
    struct hk_slab_list slab_lists[HK_CLASSES];
    uint32_t next_victim;  /* the owner from which this owner tries to take slabs or blocks next; needs no lock */
    enum hk_source source; /* where the blocks of the last refill came from */
    const void *blank;     /* a block that contains only zeros, because it was never allocated before */
    uint32_t slabs;        /* number of slabs on all lists */
    struct hk_drift drift;
    uint8_t join_waits[HK_CLASSES]; /* number of misses before the next search for room in slabs of smaller classes */
    /* A thread that takes slabs out of the inboxes uses these fields under drain_lock. */
    struct hk_lock drain_lock;
    struct hk_slab *backlog[HK_CLASSES]; /* slabs taken from the inbox, not yet drained */
    /* All threads write to these fields. */
    _Atomic uint64_t xpending HK_ALIGNED(HK_CACHE_LINE); /* bit c is set if inbox c may hold slabs */
    _Atomic(struct hk_slab *) xinbox[HK_CLASSES];
};
_Static_assert(HK_CLASSES <= 64, "a bit of xpending for each class");

/* The number of queued slabs of each class. It may be negative for a moment, because a slab may be subtracted before it is added. */
extern _Atomic int32_t hk_queued_slabs[HK_CLASSES];

/* Where `hakmem` finds the table in a core file: the first part, the array of the other parts, and the number of owners in a part. */
extern const uintptr_t hk_owners_layout[];
/* Gives a zeroed owner a number, which it keeps as long as the process runs. Returns false if no number is left, or if memory is refused. */
bool hk_owner_register(struct hk_owner *owner);
/* If true, other threads may use an owner's lists, so each use of the lists takes a lock. Set before a second thread exists. */
extern bool hk_slab_lists_shared;

/* A thread holds this lock while it changes the lists of another thread's owner, or purges claimed blocks of an inbox. fork takes the
 * lock. Therefore the lists are whole in the child, and no purge has blocks claimed there. */
extern struct hk_lock hk_sweep_lock;

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

/* Empties the lists of an owner and opens its inboxes. Called when a thread starts. */
void hk_owner_open(struct hk_owner *owner);
/* Returns one more than the number of the last owner. The first owner has the number HK_FIRST_OWNER. */
uint32_t hk_owner_end(void);
struct hk_owner *hk_owner_by_id(uint32_t id);
/* Returns the flags of owner `id`. A thread must have got this number before. */
struct hk_owner_bits *hk_owner_bits(uint32_t id);
/* hk_owners_rest() marks owners without a thread as purged, and hk_owners_wake() removes these marks. Bit i stands for the owner first + i. */
void hk_owners_rest(uint32_t first, uint64_t bits);
void hk_owners_wake(uint32_t first, uint64_t bits);
bool hk_owner_rests(uint32_t id);
/* Initializes a purged owner that is about to get a thread. */
void hk_owner_wake(struct hk_owner *owner, uint32_t id);
/* Returns the lowest number >= `from` of an owner whose memory is not purged, or hk_owner_end() if there is no such owner. */
uint32_t hk_owner_next(uint32_t from);
/* Queues a slab in the owner's inbox. Returns false if the inbox is closed. The caller must then find the slab's new owner. */
bool hk_inbox_push(struct hk_owner *owner, struct hk_slab *slab);
/* Takes up to `most` slabs of a class out of the inbox, chained by xnext. The caller drains the slabs. Some slabs may have another holder by now. */
struct hk_slab *hk_inbox_take(struct hk_owner *owner, unsigned class, unsigned most);
/* Takes slabs out of another owner's inbox. Returns NULL if the owner has read the clock after `asleep_since`, if no slab of the class is queued, or
 * if another thread holds the lock. A walk that sends each slab back visits each slab once, because the slabs that are sent back are not taken before
 * the backlog is empty. Sets *last to true if the backlog is empty, so that the walk must end. */
struct hk_slab *hk_inbox_steal(struct hk_owner *owner, unsigned class, unsigned most, uint64_t asleep_since,
                               bool *last);
HK_INLINE struct hk_slab *hk_inbox_next(const struct hk_slab *slab) { return hk_load(slab->xnext); }
/* Makes the inboxes refuse slabs when a thread ends. Slabs that were queued before can still be taken. */
void hk_inboxes_close(struct hk_owner *owner);
/* Registers the lock of the owners' table and hk_sweep_lock, because fork must take these locks. */
void hk_owners_init(void);
/* In a fork child, resets the locks, empties all inboxes, and closes all owners except `self`, which is the forking thread's owner, or NULL. */
void hk_owners_fork_child(const struct hk_owner *self);
