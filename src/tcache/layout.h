/* Layout: what a thread cache consists of.
 *
 *   hk_tcache = depot (magazines) + hot (bins, key: hit.h) + outbox + owner (slabs, inbox, counts) + the state of the slow paths
 *
 * Invariant  a block in a bin is free and of the bin's class; usually, not always, it lies in a slab of this cache's owner.
 * Threads    the cache's own; a field that begins with x may be read by any. */
#ifndef HK_LAYOUT_H
#define HK_LAYOUT_H

#include "base/liveness.h"
#include "count/countdown.h"
#include "decay/decay.h"
#include "heaps/heaps.h"
#include "slab/outbox.h"
#include "tcache/hit.h"

/* The hot part, the outbox and the shelf of a thread without a cache, in the order of struct hk_tcache. hk_self points to one of two of
 * these, so that the hit path needs no test for a missing cache: their bins are empty, their key matches no entry, their outbox refuses
 * every block, and their shelf is empty. They are constant after hk_cacheless_shut().
 *
 *   hk_thread_unborn --hk_tcache_begin--> the hot part of a cache --hk_tcache_end--> hk_thread_ended */
struct hk_cacheless {
    struct hk_thread_state hot HK_ALIGNED(HK_THREAD_STATE_ALIGN);
    struct hk_outbox outbox;
    struct hk_heap_shelf shelf;
};
extern struct hk_cacheless hk_thread_unborn, hk_thread_ended;

/* Initializes one of them: hk_thread_unborn at the start, before the gate opens, hk_thread_ended when the first thread ends. */
void hk_cacheless_shut(struct hk_cacheless *cacheless);

/* Returns the outbox beside a hot part, with or without a cache. */
HK_INLINE struct hk_outbox *hk_outbox_beside(struct hk_thread_state *hot)
{
    return (struct hk_outbox *)(void *)((char *)hot + offsetof(struct hk_cacheless, outbox));
}
/* Returns the shelf likewise. */
HK_INLINE struct hk_heap_shelf *hk_shelf_beside(struct hk_thread_state *hot)
{
    return (struct hk_heap_shelf *)(void *)((char *)hot + offsetof(struct hk_cacheless, shelf));
}

enum { HK_MAGAZINE_BLOCKS = 128 };

struct hk_magazine {
    struct hk_magazine *next;
    size_t count;
    void *blocks[HK_MAGAZINE_BLOCKS];
};

struct hk_depot {
    struct hk_depot_class {
        struct hk_magazine *newest;
        size_t blocks;
        bool drawn_on; /* since the last hk_depot_age() */
    } classes[HK_CLASSES];
    size_t bytes;              /* of blocks, in all classes */
    struct hk_magazine *spare; /* empty magazines: alternating bursts need one shortly after they have emptied one */
    unsigned spares;
};

/* Misses of a class, and the bytes that these calls requested: a sample of what the program uses the class for. */
struct hk_misses {
    uint64_t calls, requested;
};

struct hk_tcache {
    struct hk_depot depot;
    struct hk_thread_state hot
        HK_ALIGNED(HK_THREAD_STATE_ALIGN); /* not first: at the start of a page, class 0 is 13 % slower */
    struct hk_outbox outbox;               /* remote frees */
    struct hk_heap_shelf shelf;            /* caches of the program's own heaps */
    struct hk_owner owner;
    uint32_t served_at_turn[HK_CLASSES];  /* the bin's count when the bin last ran empty or full */
    uint32_t served_at_epoch[HK_CLASSES]; /* the bin's count at the last epoch */
    size_t granted;                       /* bytes that the bins may hold by their capacities */
    size_t budget;                        /* limit of granted */
    int new_for;    /* blocks that the thread may still exchange with the commons as a new thread */
    int until_tick; /* weight of slow calls left until the next tick */
    struct hk_ticker ticker;
    bool reclaims_for_growth;         /* a sweep for the growth of the heap is under way */
    uint32_t next_victim;             /* the owner whose inbox steal() tries next */
    struct hk_countdown countdown;    /* to the next sampled allocation */
    struct hk_countdown to_guarded;   /* to the next allocation that lies against a guard page */
    struct hk_countdown to_site;      /* to the next allocation that the site rules inspect */
    unsigned watched_calls;           /* allocations while a window of prof/attach_sampling.h was open */
    bool sampling;                    /* a sample is being taken: its own allocations are not sampled */
    struct hk_quarantine *quarantine; /* NULL until the first block enters it */
    uint32_t system_thread;           /* the thread as the system numbers it; 0: not asked yet */
    bool alive;
    struct hk_liveness liveness; /* of the cache's thread */
    bool has_pages;              /* the cache has pages of its own, which are purged while it waits in the pool */
    struct hk_miss_counts {      /* written by the owner; they only grow */
        _Atomic uint64_t xcalls, xrequested;
    } miss_counts[HK_CLASSES];
    _Atomic uint64_t xmisses; /* the sum of all xcalls */
};
_Static_assert(offsetof(struct hk_tcache, outbox) - offsetof(struct hk_tcache, hot) ==
                   offsetof(struct hk_cacheless, outbox),
               "hk_outbox_beside() finds the outbox of both");
_Static_assert(offsetof(struct hk_tcache, shelf) - offsetof(struct hk_tcache, hot) ==
                   offsetof(struct hk_cacheless, shelf),
               "hk_shelf_beside() finds the shelf of both");

/* The calling thread's cache; NULL before hk_tcache_begin() and after hk_tcache_end(). */
HK_INLINE struct hk_tcache *hk_tcache_self(void)
{
    struct hk_thread_state *hot = hk_self;
    bool none = hot == &hk_thread_unborn.hot || hot == &hk_thread_ended.hot;
    return none ? NULL : hk_container_of(hot, struct hk_tcache, hot);
}
HK_INLINE bool hk_tcache_ended(void) { return hk_self == &hk_thread_ended.hot; }

/* The depot (depot.c): batches of free blocks set aside as a whole, so that the blocks of a burst pass through the bitmaps neither when they are
 * freed nor when they are allocated again:   full bin --hk_depot_put--> magazine --hk_depot_take--> empty bin
 * Classes that no fill has drawn on since the last epoch shrink. */
/* Copies n <= HK_MAGAZINE_BLOCKS blocks into a magazine. False if the depot is full, the blocks are scattered, or memory is refused. */
bool hk_depot_put(struct hk_depot *depot, unsigned class, void *const *blocks, size_t n);
/* Copies the newest magazine out. Returns the number of blocks, 0 if there is no magazine or it has more than `room`. */
size_t hk_depot_take(struct hk_depot *depot, unsigned class, void **blocks, size_t room);
/* Once per epoch: flushes magazines of the classes that were not drawn on since the last call, and frees one spare magazine. */
void hk_depot_age(struct hk_tcache *cache);
/* Flushes `bytes` of blocks of the class that has most, other than `class`, so that `class` can grow into their memory. */
void hk_depot_reclaim(struct hk_tcache *cache, unsigned class, size_t bytes);
/* Flushes all magazines. */
void hk_depot_empty(struct hk_tcache *cache);
/* In a fork child, for a thread that does not exist there: forgets the magazines. Returns the number of their blocks. */
size_t hk_depot_forget(struct hk_depot *depot);
/* Moves free blocks to their slabs: the thread's own directly, those of other owners through the outbox, those of abandoned slabs at once. */
void hk_flush(struct hk_tcache *cache, void *const *blocks, unsigned n);

/* Draining (drain.c): collects remote frees from the thread's inbox and, for a miss, from the inboxes of owners that are asleep. An owner is asleep
 * if its thread has made no slow call for 10 ms. Each call's work is limited, so that no call of the program takes long. */
/* Drains a few slabs of each class. */
void hk_drain_some(struct hk_tcache *cache);
void hk_drain_all(struct hk_tcache *cache);
/* Before a miss allocates a slab of the class: drains as many bytes as the slab has, or else steals from an owner that is asleep. */
void hk_drain_for_miss(struct hk_tcache *cache, unsigned class);
/* When memory is refused: fills the empty bins from the inboxes of all other owners, asleep or not. */
void hk_tcache_steal_all(struct hk_tcache *cache);

/* The end of a thread's cache (ending.c): by the thread itself, by another thread that finds its thread gone, or in a fork child. */
/* Flushes everything that the calling thread holds. It has no cache from now on, and gets no other. */
void hk_tcache_end(void);
/* Checks up to `most` caches, and ends those whose threads are gone and could not do it themselves. True if one was ended. */
bool hk_tcaches_reap(unsigned most);
/* Only one thread remains, and may sleep from now on: purges what the others left, if that is much. */
void hk_tcaches_all_ended(void);
/* In a fork child: caches whose threads do not exist there go to the pool. The caller abandons their slabs afterwards. */
void hk_tcaches_fork_child(void);
/* Afterwards, in the survivor's cache, whose bins are believed: unmarks its medium blocks, which were assumed to be live (see slab.h). */
void hk_tcache_fork_child_unmark(struct hk_tcache *cache);

#endif
