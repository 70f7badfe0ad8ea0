/* Cache: all that a thread keeps for itself: its bins, its slabs, its outbox; and the slow paths behind a miss.
 *
 * Owns       the bins' arrays and capacities (within the thread's byte budget).
 * Invariant  a block in a bin is of the bin's class, and free; most often, not always, in a slab of this cache's owner.
 * Threads    a cache: its thread. begin, end, the list of caches: any. */
#ifndef HK_TCACHE_H
#define HK_TCACHE_H

#include "base/liveness.h"
#include "count/countdown.h"
#include "decay/decay.h"
#include "slab/outbox.h"
#include "slab/owner.h"
#include "tcache/depot.h"
#include "tcache/hit.h"

/* Calls that found a class's bin empty, and the bytes that these asked for: a sample of what the class is used for. */
struct hk_misses {
    uint64_t calls, requested;
};

struct hk_tcache {
    struct hk_depot depot;
    struct hk_hot hot HK_ALIGNED(HK_CACHE_LINE); /* not first: at the start of a page, class 0 is 13 % slower */
    struct hk_owner owner;
    uint32_t served_at_turn[HK_CLASSES]; /* what a bin had served when it last ran empty or over */
    uint32_t served_at_epoch[HK_CLASSES]; /* and when memory was last given back */
    size_t granted;      /* bytes that the bins may hold, by their capacities */
    size_t budget;       /* and may be allowed to */
    int new_for;         /* blocks that it may still take from commons, or give back to them from its bins */
    int until_tick;      /* slow calls left, by weight, until the clock is looked at */
    struct hk_ticker ticker;
    bool reclaims_for_growth; /* a sweep is under way for it */
    uint32_t next_victim; /* owner, for what it does not come for */
    struct hk_countdown countdown; /* to the next allocation that is sampled */
    struct hk_countdown to_site;   /* to the next that the site rules look at */
    bool sampling;                 /* one is, just now: what that allocates is not */
    bool alive;
    struct hk_liveness liveness; /* of its thread */
    bool has_pages; /* of its own: they go when nobody needs the cache */
    struct hk_miss_counts { /* written by the owner, ever rising */
        _Atomic uint64_t xcalls, xrequested;
    } miss_counts[HK_CLASSES];
    _Atomic uint64_t xmisses; /* their calls */
};

/* The calling thread's cache; NULL if it has none (not begun, or ended). */
HK_INLINE struct hk_tcache *hk_tcache_self(void)
{
    struct hk_hot *hot = hk_self;
    bool none = hot == &hk_hot_unborn || hot == &hk_hot_ended;
    return none ? NULL : hk_container_of(hot, struct hk_tcache, hot);
}
HK_INLINE bool hk_tcache_ended(void) { return hk_self == &hk_hot_ended; }

/* Memory for as many events as the option says; none, if it says so or memory is refused. */
void hk_tcache_open_ring(struct hk_ring *ring);

/* Gives the calling thread a cache. False if memory is refused. */
bool hk_tcache_begin(void);
/* Returns all that the thread holds; it has no cache any more, and gets none. */
void hk_tcache_end(void);
/* Looks at up to `most` caches, and does the same for threads that are gone and could not do it themselves. True if there was one. */
bool hk_tcaches_reap(unsigned most);

/* A block of a class, from its bin or after a miss, for a request of `size` bytes; NULL if memory is refused. */
void *hk_tcache_alloc(struct hk_tcache *cache, unsigned class, size_t size);
/* The same for who has found the bin empty. */
void *hk_tcache_refill(struct hk_tcache *cache, unsigned class, size_t size);

/* From a slab of the class, where each block is aligned as its size is: a lodger (see lodge.h) is not. */
void *hk_tcache_alloc_aligned(struct hk_tcache *cache, unsigned class);

/* Frees a block of a class into the thread's own bin, where it finds room or makes it. */
void hk_tcache_keep(struct hk_tcache *cache, unsigned class, void *block);

/* Frees a block that the hit path did not take; `page map entry` is what the map says of it. `cache` may be NULL. */
void hk_tcache_free(struct hk_tcache *cache, void *block, uint32_t entry);
void hk_tcache_free_big(struct hk_tcache *cache, void *block);
/* The same for a pointer that the map knows nothing of; the end, if that is no block of another allocator's either. */
void hk_tcache_free_foreign(enum hk_call call, void *block);
/* What is wrong with a pointer that the map does not know: the message's words. */
const char *hk_tcache_foreign_fault(const void *p);

/* The calling thread has just had so many bytes mapped for a big block, or had one grow by them. */
void hk_tcache_grew(struct hk_tcache *cache, size_t bytes);

/* A block resized where it is; false if it has to move. */
bool hk_tcache_resize(struct hk_tcache *cache, void *block, size_t size);

/* Gives back everything in bins and outboxes, empty slabs, and free pages of the others. Bytes of these. */
size_t hk_tcache_trim(struct hk_tcache *cache);

/* Memory is refused: what strangers freed for other threads, asleep or not, is this one's, as much as its bins hold. */
void hk_tcache_steal_all(struct hk_tcache *cache);

/* How many threads have one. */
size_t hk_tcaches_alive(void);

/* Of any number given so far: one that has ended, too; see hk_owner_next(). */
struct hk_tcache *hk_tcache_by_id(uint32_t id);

/* What one thread has missed, and all together; by any thread, of each value a slightly old one. */
HK_INLINE struct hk_misses hk_tcache_misses(const struct hk_tcache *cache, unsigned class)
{
    const struct hk_miss_counts *counts = &cache->miss_counts[class];
    return (struct hk_misses){hk_load(counts->xcalls), hk_load(counts->xrequested)};
}
struct hk_misses hk_tcaches_misses(unsigned class);

/* Blocks of a class that came from bins; what all threads have counted. */
uint64_t hk_tcaches_served(unsigned class);
uint64_t hk_tcaches_counted(enum hk_thread_stat stat);

/* What the slow paths of all threads that there were have counted. */
struct hk_tcache_totals {
    uint64_t misses, overflows, remote;
};
struct hk_tcache_totals hk_tcaches_total(void);

/* In a fork child: caches of threads that it does not have go to the pool. Their slabs are still to be orphaned. */
void hk_tcaches_fork_child(void);

#endif
