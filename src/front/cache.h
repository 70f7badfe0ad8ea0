/* Cache: all that a thread keeps for itself: its bins, its slabs, its outbox; and the slow paths behind a miss.
 *
 * Owns       the bins' arrays and capacities (within the thread's byte budget).
 * Invariant  a block in a bin is of the bin's class, and free; most often, not always, in a slab of this cache's owner.
 * Threads    a cache: its thread. begin, end, the list of caches: any. */
#ifndef HK_CACHE_H
#define HK_CACHE_H

#include "base/lifeline.h"
#include "count/countdown.h"
#include "front/depot.h"
#include "front/hit.h"
#include "slab/outbox.h"
#include "slab/owner.h"
#include "tiers/giveback.h"

/* Calls that found a class's bin empty, and the bytes that these asked for: a sample of what the class is used for. */
struct hk_misses {
    uint64_t calls, asked;
};

struct hk_cache {
    struct hk_depot depot;
    struct hk_front front HK_ALIGNED(HK_CACHE_LINE); /* not first: at the start of a page, class 0 is 13 % slower */
    struct hk_owner owner;
    uint32_t served_at_turn[HK_CLASSES]; /* what a bin had served when it last ran empty or over */
    uint32_t served_at_pass[HK_CLASSES]; /* and when memory was last given back */
    size_t granted;      /* bytes that the bins may hold, by their capacities */
    size_t budget;       /* and may be allowed to */
    int new_for;         /* blocks that it may still take from commons, or give back to them from its bins */
    int until_tick;      /* slow calls left, by weight, until the clock is looked at */
    struct hk_pulse pulse;
    bool pays_for_growth; /* a sweep is under way for it */
    uint32_t next_asked; /* owner, for what it does not come for */
    struct hk_countdown countdown; /* to the next allocation that is sampled */
    struct hk_countdown to_site;   /* to the next that the site rules look at */
    bool sampling;                 /* one is, just now: what that allocates is not */
    bool alive;
    struct hk_lifeline lifeline; /* of its thread */
    bool has_pages; /* of its own: they go when nobody needs the cache */
    struct hk_miss_counts { /* written by the owner, ever rising */
        _Atomic uint64_t xcalls, xasked;
    } miss_counts[HK_CLASSES];
    _Atomic uint64_t xmisses; /* their calls */
};

/* The calling thread's cache; NULL if it has none (not begun, or ended). */
HK_INLINE struct hk_cache *hk_cache_self(void)
{
    struct hk_front *front = hk_self;
    bool none = front == &hk_front_unborn || front == &hk_front_dying;
    return none ? NULL : hk_container_of(front, struct hk_cache, front);
}
HK_INLINE bool hk_cache_ended(void) { return hk_self == &hk_front_dying; }

/* Memory for as many events as the option says; none, if it says so or memory is refused. */
void hk_cache_open_ring(struct hk_ring *ring);

/* Gives the calling thread a cache. False if memory is refused. */
bool hk_cache_begin(void);
/* Returns all that the thread holds; it has no cache any more, and gets none. */
void hk_cache_end(void);
/* Looks at up to `most` caches, and does the same for threads that are gone and could not do it themselves. True if there was one. */
bool hk_caches_reap(unsigned most);

/* A block of a class, from its bin or after a miss, for a request of `size` bytes; NULL if memory is refused. */
void *hk_cache_alloc(struct hk_cache *cache, unsigned class, size_t size);
/* The same for who has found the bin empty. */
void *hk_cache_refill(struct hk_cache *cache, unsigned class, size_t size);

/* From a slab of the class, where each block is aligned as its size is: a lodger (see lodge.h) is not. */
void *hk_cache_alloc_aligned(struct hk_cache *cache, unsigned class);

/* Frees a block of a class into the thread's own bin, where it finds room or makes it. */
void hk_cache_keep(struct hk_cache *cache, unsigned class, void *block);

/* Frees a block that the hit path did not take; `route` is what the map says of it. `cache` may be NULL. */
void hk_cache_free(struct hk_cache *cache, void *block, uint32_t route);
void hk_cache_free_big(struct hk_cache *cache, void *block);
/* The same for a pointer that the map knows nothing of; the end, if that is no block of another allocator's either. */
void hk_cache_free_foreign(enum hk_call call, void *block);
/* What is wrong with a pointer that the map does not know: the message's words. */
const char *hk_cache_foreign_fault(const void *p);

/* The calling thread has just had so many bytes mapped for a big block, or had one grow by them. */
void hk_cache_grew(struct hk_cache *cache, size_t bytes);

/* A block resized where it is; false if it has to move. */
bool hk_cache_resize(struct hk_cache *cache, void *block, size_t size);

/* Gives back everything in bins and outboxes, empty slabs, and free pages of the others. Bytes of these. */
size_t hk_cache_trim(struct hk_cache *cache);

/* Memory is refused: what strangers freed for other threads, asleep or not, is this one's, as much as its bins hold. */
void hk_cache_rob_all(struct hk_cache *cache);

/* How many threads have one. */
size_t hk_caches_alive(void);

/* Of any number given so far: one that has ended, too; see hk_owner_next(). */
struct hk_cache *hk_cache_by_id(uint32_t id);

/* What one thread has missed, and all together; by any thread, of each value a slightly old one. */
HK_INLINE struct hk_misses hk_cache_misses(const struct hk_cache *cache, unsigned class)
{
    const struct hk_miss_counts *counts = &cache->miss_counts[class];
    return (struct hk_misses){hk_load(counts->xcalls), hk_load(counts->xasked)};
}
struct hk_misses hk_caches_misses(unsigned class);

/* Blocks of a class that came from bins; what all threads have counted. */
uint64_t hk_caches_served(unsigned class);
uint64_t hk_caches_counted(enum hk_thread_stat stat);

/* What the slow paths of all threads that there were have counted. */
struct hk_cache_totals {
    uint64_t misses, overflows, remote;
};
struct hk_cache_totals hk_caches_total(void);

/* In a fork child: caches of threads that it does not have go to the pool. Their slabs are still to be orphaned. */
void hk_caches_fork_child(void);

#endif
