/* Declares the parts of a thread cache, and the functions between these parts.
 *
 *   hk_tcache = depot (magazines) + hot (bins, key: hit.h) + outbox + owner (slabs, inbox, counts) + the state of the slow paths
 *
 * Invariant  A block in a bin is free and has the bin's class. Most blocks in a bin, but not all, lie in slabs of this cache's owner.
 * Threads    Only the cache's own thread uses a cache. Any thread may read the fields that begin with x. */
#pragma once

#include "base/liveness.h"
#include "count/countdown.h"
#include "decay/decay.h"
#include "heaps/heaps.h"
#include "slab/outbox.h"
#include "tcache/hit.h"

/* This record takes the place of a cache for a thread that has none. Its parts have the same order as in struct hk_tcache. hk_self of such a thread
 * points to hk_thread_unborn or hk_thread_ended, so that the hit path needs no test for a missing cache. The bins and the shelf of these two records
 * are empty, their key matches no entry, and their outbox refuses every block. The records do not change after hk_cacheless_shut().
 *
 *   hk_thread_unborn --hk_tcache_begin--> the hot part of a cache --hk_tcache_end--> hk_thread_ended */
struct hk_cacheless {
    struct hk_thread_state hot HK_ALIGNED(HK_THREAD_STATE_ALIGN);
    struct hk_outbox outbox;
    struct hk_heap_shelf shelf;
};
extern struct hk_cacheless hk_thread_unborn, hk_thread_ended;

/* Initializes a record. Called for hk_thread_unborn at the start, before the gate opens, and for hk_thread_ended when the first thread ends. */
void hk_cacheless_shut(struct hk_cacheless *cacheless);

/* Returns the shelf that follows a hot part in a cache or in a struct hk_cacheless. */
HK_INLINE struct hk_heap_shelf *hk_shelf_beside(struct hk_thread_state *hot)
{
    return &hk_container_of(hot, struct hk_cacheless, hot)->shelf;
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
        bool drawn_on; /* true if a fill took blocks since the last hk_depot_age() */
    } classes[HK_CLASSES];
    size_t bytes;              /* bytes of the blocks of all classes */
    struct hk_magazine *spare; /* empty magazines, kept because alternating bursts soon need them again */
    unsigned spares;
};

/* The quarantine (quarantine.c) holds freed blocks back, so that an address is not reused soon. The slots are random, so that an attacker cannot tell
 * how many frees will pass before an address is reused. Blocks in the quarantine are neither live nor in a bin.
 *
 *   A freed block takes a random one of 16 slots. The block that was there joins a queue of 16 blocks. Blocks that leave the queue are freed. */
enum { HK_QUARANTINE_MIXED = 16, HK_QUARANTINE_WAITING = 16, HK_QUARANTINE_HELD = 32 };

struct hk_quarantine {
    uint64_t random;
    unsigned at; /* the block at this index of the queue has waited longest */
    /* The first HK_QUARANTINE_MIXED elements are the random slots. The elements after them are the queue, which is a ring. */
    void *blocks[HK_QUARANTINE_HELD];
};

/* Says when guard/sampled_due.h samples an allocation of the thread. */
struct hk_due {
    struct hk_countdown countdown; /* bytes that are counted in rounds, until the next sample becomes due */
    struct hk_countdown spacing;   /* while samples are owed: bytes until the next allocation that is sampled */
};

/* Tells whether blocks of a class cross, which means that this thread frees other threads' blocks, and gets back its own (crossing.c). */
struct hk_crossing {
    uint8_t sent; /* number of bitmap words of which blocks went home, modulo 256; a miss of the class subtracts 1 */
    uint8_t returned; /* number of own blocks that came back, divided by 64; a miss of the class subtracts 1 */
    uint8_t misses;   /* rises by 1 at a miss at which blocks crossed, falls by 1 at another miss; from 0 to 16 */
    uint8_t unused;   /* makes the size a power of two, so that one instruction finds the counts of a class */
};

struct hk_tcache {
    struct hk_depot depot;
    struct hk_thread_state hot
        HK_ALIGNED(HK_THREAD_STATE_ALIGN); /* not first, because a bin at the start of a page is 13 % slower */
    struct hk_outbox outbox;               /* sends remote frees */
    struct hk_heap_shelf shelf;            /* caches of the user heaps */
    struct hk_owner owner;
    int32_t turns[HK_CLASSES]; /* number of times that the bin ran empty or full since the last epoch */
    struct hk_crossing crossings[HK_CLASSES];
    uint32_t seen_at_epoch[HK_CLASSES]; /* the places of the bin's newest item and its block at the last epoch */
    uint64_t held_until[HK_CLASSES - HK_FINE_CLASSES]; /* time in ms; before it, an idle medium bin is not flushed */
    size_t granted;                                    /* bytes of the blocks that the bins have capacity for */
    size_t budget;                                     /* limit of `granted` */
    int new_for;    /* number of blocks of the commons (abandoned.h) that a new thread may still put into its bins */
    int until_tick; /* weight of the slow calls that remain until the next tick */
    struct hk_ticker ticker;
    bool reclaims_for_growth; /* the sweep in progress reclaims memory because the heap grew */
    size_t flushed;           /* bytes freed in slabs and not taken again since the last sweep for growth or excess */
    size_t clean_before;      /* the lowest value of hk_slabs_clean() since then */
    size_t released;          /* the value of owner.xreleased when it was last subtracted from `flushed` */
    struct hk_countdown countdown;    /* bytes until the next sampled allocation */
    struct hk_due guarded;            /* the samples that get a guard page */
    struct hk_countdown to_site;      /* bytes until the next allocation that the site rules inspect */
    unsigned watched_calls;           /* number of allocations while prof/attach_sampling.h watched the process */
    bool sampling;                    /* true while a sample is taken, whose own allocations are not sampled */
    struct hk_quarantine *quarantine; /* NULL until the first block enters the quarantine */
    uint32_t system_thread;           /* the system's number of the thread, for reports; 0: not stored */
    bool alive;
    _Atomic bool xtaken;                /* true while another thread recalls the blocks of the cache (recall.c) */
    _Atomic bool xrecalled;             /* true if the blocks were recalled since the last slow call */
    _Atomic uint8_t xholes[HK_CLASSES]; /* number of the lowest items of a bin that a recall has replaced by NULL */
    _Atomic uint32_t xbusy;             /* number of slow calls that use the bins, one within the other */
    struct hk_liveness liveness;        /* tells whether the cache's thread still exists */
    struct hk_miss_counts {             /* written by the cache's thread; a purge moves the counts to the pool's sums */
        _Atomic uint64_t xcalls[HK_SOURCES];
        _Atomic uint64_t xrequested; /* bytes requested by the calls that missed, which are a sample of all calls */
    } miss_counts[HK_CLASSES];
};
#define HK_BESIDE(part) (offsetof(struct hk_tcache, part) - offsetof(struct hk_tcache, hot))
_Static_assert(HK_BESIDE(outbox) == offsetof(struct hk_cacheless, outbox), "free_not_mine() finds that of both");
_Static_assert(HK_BESIDE(shelf) == offsetof(struct hk_cacheless, shelf), "hk_shelf_beside() finds that of both");

/* Returns the calling thread's cache. Returns NULL before hk_tcache_begin() and after hk_tcache_end(). */
HK_INLINE struct hk_tcache *hk_tcache_self(void)
{
    struct hk_thread_state *hot = hk_self;
    bool none = hot == &hk_thread_unborn.hot || hot == &hk_thread_ended.hot;
    return none ? NULL : hk_container_of(hot, struct hk_tcache, hot);
}
HK_INLINE bool hk_tcache_ended(void) { return hk_self == &hk_thread_ended.hot; }

/* A slow call uses bins and depot only between hk_tcache_enter() and hk_tcache_leave(), because other threads may recall the blocks (recall.c). */
void hk_tcache_enter_slow(struct hk_tcache *cache);
HK_INLINE void hk_tcache_enter(struct hk_tcache *cache)
{
    hk_store(cache->xbusy, hk_load(cache->xbusy) + 1);
    atomic_signal_fence(memory_order_seq_cst);
    if (HK_UNLIKELY(hk_load_acquire(cache->xtaken) || hk_load(cache->xrecalled)))
        hk_tcache_enter_slow(cache);
}
/* Returns the number of blocks in a bin. Any thread may call it, and may get an old result. */
HK_INLINE size_t hk_bin_blocks(const struct hk_tcache *cache, unsigned class)
{
    size_t items = hk_bin_items(&cache->hot.bins[class]);
    return items - hk_min(items, hk_load(cache->xholes[class]));
}
HK_INLINE void hk_tcache_leave(struct hk_tcache *cache) { hk_store_release(cache->xbusy, hk_load(cache->xbusy) - 1); }

/* These functions (bins.c) enlarge, fill and empty bins, and own their arrays. A bin's capacity is the number of blocks that its array can hold. */
extern uint64_t hk_bins_random; /* seed for shuffling the blocks of each fill; set at the start; 0: no shuffling */

/* Enlarges a bin. Returns false if the bin has the largest capacity of its class, the budget is used up, or memory is refused. */
bool hk_bin_grow(struct hk_tcache *cache, unsigned class);
/* Returns true if the bin is hot, which means that it has the largest capacity of its class. Any thread may call it, and may get an old result. */
bool hk_bin_is_hot(const struct hk_bin *bin, unsigned class);
/* Called when a bin becomes empty or full. Enlarges a bin for which this is the call number hot_turns, or a later one, since the last epoch. */
bool hk_bin_grow_if_small(struct hk_tcache *cache, unsigned class);
/* Fills an empty bin with a magazine of the depot, or else with blocks of the commons or of the thread's slabs. Returns their number; 0: refused. */
size_t hk_bin_fill(struct hk_tcache *cache, unsigned class);
/* Moves the n oldest blocks of a bin to the depot if the bin has its largest capacity and the depot accepts them. Otherwise moves them to slabs. */
void hk_bin_flush(struct hk_tcache *cache, unsigned class, size_t n);
void hk_bin_empty(struct hk_tcache *cache, unsigned class);
/* Returns the byte budget of a thread, which limits the blocks that its bins can hold. The budget grows with the resident heap per thread. */
size_t hk_bins_budget(void);
/* Returns all blocks of the bins and the depot to their slabs, and frees the arrays of the bins. If `held_too` is false, leaves held bins (held_until)
 * as they are. This is so if the thread was idle for a long time, or if there is much idle memory. */
void hk_bins_empty(struct hk_tcache *cache, bool held_too);
/* Called at exit. Ends the program if a bin of small blocks holds a block twice, with at most one other block in between, or a pointer that is not a
 * multiple of 16. Reads only the arrays of the bins, so that each program can afford it. Checks nothing if a signal handler has interrupted a slow
 * call and exits, because the call may have been changing a bin. */
void hk_bins_check(struct hk_tcache *cache);
/* Called at each epoch. If a bin is not held and looks unused since the last epoch, empties the bin, or frees its array if it is empty. */
void hk_bins_flush_idle(struct hk_tcache *cache);

/* These functions (crossing.c) decide which blocks of other owners' slabs the thread keeps in its bins, and which it sends home.
 *
 *   a block of at least 1 KiB   is kept if the thread also allocates blocks of its class
 *   a smaller block             goes home, because two threads should not write to one cache line, and because frees of own blocks are faster.
 *                               It is kept while its class crosses, because its owner would soon send such a block back. */
HK_INLINE bool hk_crossing_keeps(const struct hk_tcache *cache, unsigned class)
{
    return (cache->hot.keeps >> class & 1) != 0 || (class >= HK_FINE_CLASSES && cache->hot.bins[class].served > 0);
}
/* The next four functions record events. hk_crossing_missed() may send all blocks of the outbox. hk_crossing_returned() is called if `blocks` own
 * blocks came back, hk_crossing_sent() if the outbox's fast path refused a block, and hk_crossing_overflowed() if a bin is full. */
void hk_crossing_missed(struct hk_tcache *cache, unsigned class);
void hk_crossing_returned(struct hk_tcache *cache, unsigned class, size_t blocks);
HK_INLINE void hk_crossing_sent(struct hk_tcache *cache, unsigned class) { cache->crossings[class].sent++; }
void hk_crossing_overflowed(struct hk_tcache *cache, unsigned class);
/* Forgets the events that an earlier thread of the cache has recorded. */
void hk_crossing_forget(struct hk_tcache *cache);

/* The depot (depot.c) keeps batches of free blocks together, so that the blocks of a burst do not pass through the bitmaps when they are freed and
 * allocated again:   full bin --hk_depot_put--> magazine --hk_depot_take--> empty bin */
/* Copies n <= HK_MAGAZINE_BLOCKS blocks into a magazine. Returns false if the depot is full, if the blocks are scattered, or if memory is refused. */
bool hk_depot_put(struct hk_depot *depot, unsigned class, void *const *blocks, size_t n);
/* Moves the blocks of the newest magazine to `blocks`. Returns their number, or 0 if no magazine exists or the newest has more than `room` blocks. */
size_t hk_depot_take(struct hk_depot *depot, unsigned class, void **blocks, size_t room);
/* Runs once per epoch. If magazines of a class have filled no bin since the last epoch, flushes magazines of this class. Frees one spare magazine. */
void hk_depot_age(struct hk_tcache *cache);
/* Flushes about `bytes` bytes of blocks of the fullest class except `class`. If slabs become free, a new slab of `class` can reuse their memory. */
void hk_depot_reclaim(struct hk_tcache *cache, unsigned class, size_t bytes);
void hk_depot_empty(struct hk_tcache *cache);
/* Forgets the magazines of a thread that does not exist in the fork child. Returns the number of blocks in these magazines. */
size_t hk_depot_forget(struct hk_depot *depot);
/* Moves free blocks to their slabs. Blocks of other owners go through the outbox. */
void hk_flush(struct hk_tcache *cache, void *const *blocks, unsigned n);

extern uint64_t hk_quarantine_seed; /* part of the seed of each thread's random numbers; set at the start */

/* Puts a block into the quarantine. Returns the block that leaves the quarantine, or NULL if none leaves. The caller must free this block. */
void *hk_quarantine_swap(struct hk_tcache *cache, void *block);
/* Moves all blocks of the quarantine to their slabs, and frees its memory. */
void hk_quarantine_empty(struct hk_tcache *cache);
/* Leaks the quarantine of a thread that does not exist in the fork child. Returns the number of leaked blocks. */
size_t hk_quarantine_forget(struct hk_tcache *cache);

/* These functions (drain.c) collect remote frees from the thread's inboxes. On a miss, they also collect from the inboxes of sleeping owners. A tick
 * reads the clock. An owner is asleep if it has had no tick for 10 ms. The work of each call is limited, so that no call takes long. */
/* Drains a few slabs of each class from the thread's inboxes. */
void hk_drain_some(struct hk_tcache *cache);
void hk_drain_all(struct hk_tcache *cache);
/* Runs before a miss may allocate a slab. Drains slabs of the class. If the class still has no blocks, drains slabs of all classes, up to the bytes
 * of a new slab. If the class still has no blocks after this, steals blocks from owners that are asleep. */
void hk_drain_for_miss(struct hk_tcache *cache, unsigned class);
/* Fills the empty bins with the remote frees in the inboxes of all other owners, asleep or not. Slabs of owners that have slept for long are taken
 * over instead. Called if memory is refused. */
void hk_tcache_steal_all(struct hk_tcache *cache);

/* These functions flush and end a thread's cache (ending.c). The caller is the thread itself, another thread that finds it gone, or a fork child's thread. */
/* Returns the blocks of the quarantine, the bins, the depot and the outbox to their slabs. Ends the program if one of them was freed twice. */
void hk_tcache_flush(struct hk_tcache *cache);
/* Takes the cache from the calling thread, which gets no other cache. Parks a cache that holds little for the next thread. Flushes and ends another one. */
void hk_tcache_end(void);
/* Ends the parked caches that are due, or all parked caches. */
void hk_tcaches_end_parked(bool all);
/* If ended threads have left much memory, purges this memory. Called when one thread remains, because this thread may run no more epochs. */
void hk_tcaches_all_ended(void);
/* Checks up to `most` caches. Ends each cache whose thread is gone without having ended the cache. Returns true if a cache was ended. */
bool hk_tcaches_reap(unsigned most);
/* If a thread does not exist in the fork child, moves its cache to the pool. The caller must then abandon the slabs of such threads. */
void hk_tcaches_fork_child(void);
/* Clears the marks of the medium blocks in the cache of a fork child's only thread. hk_marks_assume() has marked them as live, but they are free. */
void hk_tcache_fork_child_unmark(struct hk_tcache *cache);
