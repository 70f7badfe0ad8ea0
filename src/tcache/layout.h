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

/* The hot part, the outbox and the shelf of a thread without a cache, in the order of struct hk_tcache. hk_self of this thread points to one of the
 * two records below, so that the hit path needs no test for a missing cache. Their bins are empty, their key matches no entry, their outbox refuses
 * every block, and their shelf is empty. They are constant after hk_cacheless_shut().
 *
 *   hk_thread_unborn --hk_tcache_begin--> the hot part of a cache --hk_tcache_end--> hk_thread_ended */
struct hk_cacheless {
    struct hk_thread_state hot HK_ALIGNED(HK_THREAD_STATE_ALIGN);
    struct hk_outbox outbox;
    struct hk_heap_shelf shelf;
};
extern struct hk_cacheless hk_thread_unborn, hk_thread_ended;

/* Initializes hk_thread_unborn at the start, before the gate opens, and hk_thread_ended when the first thread ends. */
void hk_cacheless_shut(struct hk_cacheless *cacheless);

/* Returns the outbox that follows a hot part. It is the cache's, or that of a struct hk_cacheless. */
HK_INLINE struct hk_outbox *hk_outbox_beside(struct hk_thread_state *hot)
{
    return (struct hk_outbox *)(void *)((char *)hot + offsetof(struct hk_cacheless, outbox));
}
/* Returns the shelf that follows a hot part. */
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
        bool drawn_on; /* a fill took blocks since the last hk_depot_age() */
    } classes[HK_CLASSES];
    size_t bytes;              /* bytes of the blocks of all classes */
    struct hk_magazine *spare; /* empty magazines, kept because alternating bursts soon need one again */
    unsigned spares;
};

/* The misses of a class, and the bytes that these calls requested. They are a sample of what the program uses the class for. */
struct hk_misses {
    uint64_t calls, requested;
};

struct hk_tcache {
    struct hk_depot depot;
    struct hk_thread_state hot
        HK_ALIGNED(HK_THREAD_STATE_ALIGN); /* not first, because class 0 is 13 % slower at the start of a page */
    struct hk_outbox outbox;               /* sends remote frees */
    struct hk_heap_shelf shelf;            /* caches of the user heaps */
    struct hk_owner owner;
    uint32_t served_at_turn[HK_CLASSES];  /* `served` of the bin when it last ran empty or full */
    uint32_t served_at_epoch[HK_CLASSES]; /* `served` of the bin at the last epoch */
    size_t granted;                       /* bytes of the blocks that the bins have capacity for */
    size_t budget;                        /* limit of `granted` */
    int new_for;                          /* blocks that a new thread may yet exchange with the commons; 0: not new */
    int until_tick;                       /* weight of the slow calls before the next tick */
    struct hk_ticker ticker;
    bool reclaims_for_growth;         /* a sweep because of the heap's growth is under way */
    uint32_t next_victim;             /* the owner whose inbox steal() tries next */
    struct hk_countdown countdown;    /* bytes until the next sampled allocation */
    struct hk_countdown to_guarded;   /* bytes until the next allocation that lies against a guard page */
    struct hk_countdown to_site;      /* bytes until the next allocation that the site rules inspect */
    unsigned watched_calls;           /* allocations while a window of prof/attach_sampling.h was open */
    bool sampling;                    /* a sample is being taken; its own allocations are not sampled */
    struct hk_quarantine *quarantine; /* NULL until the first block enters it */
    uint32_t system_thread;           /* the system's number of the thread; 0: not asked yet */
    bool alive;
    struct hk_liveness liveness; /* tells if the cache's thread exists */
    bool has_pages;              /* the cache has its own pages, which can be purged while it is in the pool */
    struct hk_miss_counts {      /* written by the owner only; the counts only grow */
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

/* Returns the calling thread's cache, NULL before hk_tcache_begin() and after hk_tcache_end(). */
HK_INLINE struct hk_tcache *hk_tcache_self(void)
{
    struct hk_thread_state *hot = hk_self;
    bool none = hot == &hk_thread_unborn.hot || hot == &hk_thread_ended.hot;
    return none ? NULL : hk_container_of(hot, struct hk_tcache, hot);
}
HK_INLINE bool hk_tcache_ended(void) { return hk_self == &hk_thread_ended.hot; }

/* The depot (depot.c) sets batches of free blocks aside as a whole, so that the blocks of a burst pass through the bitmaps neither when they are
 * freed nor when they are allocated again:   full bin --hk_depot_put--> magazine --hk_depot_take--> empty bin
 * The depot shrinks classes that no fill has taken from since the last epoch. */
/* Copies n <= HK_MAGAZINE_BLOCKS blocks into a magazine. Returns false if the depot is full, the blocks are scattered, or memory is refused. */
bool hk_depot_put(struct hk_depot *depot, unsigned class, void *const *blocks, size_t n);
/* Copies the blocks of the newest magazine out. Returns their number, 0 if there is no magazine or it has more than `room` blocks. */
size_t hk_depot_take(struct hk_depot *depot, unsigned class, void **blocks, size_t room);
/* Runs once per epoch. Flushes magazines of the classes that no fill took from since the last call, and frees one spare magazine. */
void hk_depot_age(struct hk_tcache *cache);
/* Flushes blocks of the fullest class other than `class`, `bytes` in total, so that `class` can grow into their memory. */
void hk_depot_reclaim(struct hk_tcache *cache, unsigned class, size_t bytes);
/* Flushes all magazines. */
void hk_depot_empty(struct hk_tcache *cache);
/* Forgets the magazines of a thread that a fork child does not have. Returns the number of their blocks. */
size_t hk_depot_forget(struct hk_depot *depot);
/* Moves free blocks to their slabs. Blocks of other owners go through the outbox. */
void hk_flush(struct hk_tcache *cache, void *const *blocks, unsigned n);

/* Draining (drain.c) collects remote frees from the thread's inbox and, on a miss, from the inboxes of owners that are asleep. An owner is asleep
 * if its thread has made no slow call for 10 ms. Each call's work is limited, so that no call of the program takes long. */
/* Drains a few slabs of each class. */
void hk_drain_some(struct hk_tcache *cache);
void hk_drain_all(struct hk_tcache *cache);
/* Runs before a miss allocates a slab. Drains as many bytes as the slab has. If no block is found, steals from an owner that is asleep. */
void hk_drain_for_miss(struct hk_tcache *cache, unsigned class);
/* Fills the empty bins from the inboxes of all other owners, asleep or not. Runs if memory is refused. */
void hk_tcache_steal_all(struct hk_tcache *cache);

/* A thread's cache is ended (ending.c) by the thread itself, by another thread that finds that thread gone, or in a fork child. */
/* Flushes everything that the calling thread holds. The thread has no cache from then on, and gets no other. */
void hk_tcache_end(void);
/* Checks up to `most` caches, and ends those whose threads are gone and have not ended them. Returns true if one was ended. */
bool hk_tcaches_reap(unsigned most);
/* Purges what ended threads left, if that is much. The only remaining thread calls it, because it may sleep from then on. */
void hk_tcaches_all_ended(void);
/* Moves the caches of threads that a fork child does not have to the pool. The caller must then abandon their slabs. */
void hk_tcaches_fork_child(void);
/* Unmarks the medium blocks in the cache of a fork child's only thread. They were assumed to be live (see slab.h), but this cache can be trusted. */
void hk_tcache_fork_child_unmark(struct hk_tcache *cache);

#endif
