/* Keeps the caches of ended threads until new threads take them, purges caches that wait long, and adds up the counts of all caches. */
#include "tcache/pool.h"
#include "slab/abandoned.h"
#include "span/meta.h"

enum {
    POOL_WORD = 64,       /* number of caches whose flags share a word of struct hk_owner_bits */
    MOST_PAUSES = 10000,  /* most pauses while hk_pool_purge() waits, about one second */
    MAX_PER_EPOCH = 8192, /* an epoch stops purging after this number of caches, which takes some ms */
    MANY_THREADS = 64,    /* with more threads, new threads take blocks from the commons */
};

/* Keeps the sums of the counts that purged caches had, because a purge sets the counts in a cache to zero. */
static struct {
    _Atomic uint64_t xserved[HK_CLASSES];
    struct hk_miss_counts missed[HK_CLASSES];
    struct hk_thread_counts counts;
} kept HK_COLD_DATA;

static struct {
    struct hk_lock lock;
    _Atomic unsigned xwaiting;    /* number of caches in the pool */
    uint32_t next_checked;        /* number of the cache at which hk_pool_next_dead() continues */
    _Atomic unsigned xresident;   /* number of waiting caches that are not purged */
    unsigned first_word;          /* no cache of a word below this one waits */
    struct hk_tcache *numberless; /* a new cache that could not get a number, kept for the next try; NULL: none */
    uint64_t epoch;
    bool purging;
    unsigned purged_word; /* the word whose caches are being purged */
    uint64_t purged;      /* bits of the caches being purged, which are cleared in `waiting` until the purge ends */
    _Atomic size_t xalive;
    struct hk_tcache *parked[HK_POOL_PARKED]; /* a stack, from which new threads take the newest */
    _Atomic unsigned xparked;                 /* number of caches on it */
    unsigned parked_least;                    /* the lowest value of xparked since the last epoch */
    unsigned parked_due;                      /* number of the oldest parked caches that are to be ended */
} pool = {.lock = HK_LOCK_INIT(HK_RANK_LIFE)};

static size_t cache_bytes(void) { return hk_in_system_pages(sizeof(struct hk_tcache)); }
static struct hk_owner_bits *bits_at(unsigned word) { return hk_owner_bits(word * POOL_WORD); }

/* Returns the cache that belongs to the lowest bit that is set in `bits`. */
static struct hk_tcache *cache_at(unsigned word, uint64_t bits)
{
    return hk_tcache_by_id(word * POOL_WORD + hk_ctz64(bits));
}

static void wait_locked(unsigned word, uint64_t bits)
{
    struct hk_owner_bits *state = bits_at(word);
    state->waiting |= bits;
    state->aged &= ~bits;
    hk_add(pool.xwaiting, hk_popcount64(bits));
    pool.first_word = (unsigned)hk_min(pool.first_word, word);
}

size_t hk_tcaches_alive(void) { return hk_load(pool.xalive); }
bool hk_pool_crowded(void) { return hk_tcaches_alive() > MANY_THREADS; }

static void set_alive(size_t alive)
{
    hk_store(pool.xalive, alive);
    hk_abandoned_crowd(hk_pool_crowded());
}

bool hk_pool_waits(void) { return hk_load(pool.xwaiting) != 0; }

/* Takes the waiting cache with the lowest number out of the pool. Returns its number, or HK_NOBODY if no cache waits. */
static uint32_t take_number_locked(void)
{
    if (!hk_pool_waits())
        return HK_NOBODY;
    while (bits_at(pool.first_word)->waiting == 0)
        pool.first_word++;
    uint64_t *word = &bits_at(pool.first_word)->waiting;
    uint32_t id = pool.first_word * POOL_WORD + hk_ctz64(*word);
    *word &= *word - 1;
    hk_sub(pool.xwaiting, 1);
    return id;
}

/* Returns true if the cache has pages of its own and can be purged. The first cache usually shares pages, because it is often the only one. */
static bool has_pages(uint32_t id) { return HK_THREAD_STATE_ALIGN > HK_CACHE_LINE || id != HK_FIRST_OWNER; }

void hk_tcache_open_ring(struct hk_ring *ring)
{
    if (hk_options.trace_ring == 0)
        return;
    size_t size = hk_ring_size(hk_options.trace_ring);
    struct hk_event *events = hk_meta_alloc(size * sizeof *events);
    if (events != NULL)
        hk_ring_open(ring, events, size);
}

static struct hk_tcache *made_locked(void)
{
    struct hk_tcache *cache = pool.numberless;
    if (cache == NULL)
        cache = has_pages(hk_owner_end()) ? hk_meta_pages(cache_bytes()) : hk_meta_alloc(sizeof *cache);
    pool.numberless = cache;
    if (cache == NULL || !hk_owner_register(&cache->owner))
        return NULL;
    pool.numberless = NULL;
    hk_tcache_open_ring(&cache->owner.ring);
    return cache;
}

struct hk_tcache *hk_pool_take(void)
{
    hk_lock(&pool.lock);
    uint32_t id = take_number_locked();
    struct hk_tcache *cache = id != HK_NOBODY ? hk_tcache_by_id(id) : NULL;
    bool was_purged = cache != NULL && cache->owner.id == HK_NOBODY;
    hk_sub(pool.xresident, cache != NULL && !was_purged);
    if (cache == NULL)
        cache = made_locked();
    if (cache != NULL)
        set_alive(hk_tcaches_alive() + 1);
    hk_unlock(&pool.lock);
    if (was_purged) {
        hk_owner_wake(&cache->owner, id);
        hk_meta_wake(cache_bytes());
    }
    return cache;
}

void hk_pool_shut_ended(void)
{
    static _Atomic bool xdone;
    if (HK_LIKELY(hk_load_acquire(xdone)))
        return;
    hk_lock(&pool.lock);
    if (!hk_load(xdone))
        hk_cacheless_shut(&hk_thread_ended);
    hk_store_release(xdone, true);
    hk_unlock(&pool.lock);
}

void hk_pool_put(struct hk_tcache *cache)
{
    uint32_t id = cache->owner.id;
    hk_lock(&pool.lock);
    set_alive(hk_tcaches_alive() - 1);
    cache->alive = false;
    hk_add(pool.xresident, 1);
    wait_locked(id / POOL_WORD, (uint64_t)1 << id % POOL_WORD);
    hk_unlock(&pool.lock);
}

bool hk_pool_park(struct hk_tcache *cache)
{
    hk_lock(&pool.lock);
    unsigned parked = hk_load(pool.xparked);
    bool room = parked < HK_POOL_PARKED;
    if (room) {
        pool.parked[parked] = cache;
        hk_store(pool.xparked, parked + 1);
        set_alive(hk_tcaches_alive() - 1);
    }
    hk_unlock(&pool.lock);
    return room;
}

unsigned hk_pool_parked(void) { return hk_load(pool.xparked); }

struct hk_tcache *hk_pool_unpark(enum hk_unpark which)
{
    struct hk_tcache *cache = NULL;
    if (hk_load(pool.xparked) == 0)
        return NULL;
    hk_lock(&pool.lock);
    unsigned parked = hk_load(pool.xparked);
    if (parked > 0 && (which != HK_UNPARK_DUE || pool.parked_due > 0)) {
        unsigned at = which == HK_UNPARK_NEWEST ? parked - 1 : 0;
        cache = pool.parked[at];
        memmove(&pool.parked[at], &pool.parked[at + 1], (parked - 1 - at) * sizeof cache);
        hk_store(pool.xparked, parked - 1);
        pool.parked_least = (unsigned)hk_min(pool.parked_least, parked - 1);
        pool.parked_due -= which != HK_UNPARK_NEWEST && pool.parked_due > 0;
        pool.parked_due = (unsigned)hk_min(pool.parked_due, parked - 1);
        set_alive(hk_tcaches_alive() + 1);
    }
    hk_unlock(&pool.lock);
    return cache;
}

struct hk_tcache *hk_pool_next_dead(unsigned *most)
{
    struct hk_tcache *dead = NULL;
    hk_lock(&pool.lock);
    uint32_t end = hk_owner_end();
    for (; *most > 0 && dead == NULL; --*most) {
        uint32_t id = pool.next_checked;
        id = hk_owner_next(id < HK_FIRST_OWNER || id >= end ? HK_FIRST_OWNER : id);
        pool.next_checked = id + 1;
        if (id < end && hk_liveness_lost(&hk_tcache_by_id(id)->liveness))
            dead = hk_tcache_by_id(id);
    }
    hk_unlock(&pool.lock);
    return dead;
}

/* Adds the counts at `from` to those at `to`, and sets them to zero. */
static void move_counts(void *to, void *from, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof(uint64_t); i++) {
        hk_add(((_Atomic uint64_t *)to)[i], hk_load(((_Atomic uint64_t *)from)[i]));
        hk_store(((_Atomic uint64_t *)from)[i], 0);
    }
}

static void keep_counts_locked(struct hk_tcache *cache)
{
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        move_counts(&kept.xserved[class], &cache->hot.bins[class].served, sizeof(uint64_t));
    move_counts(kept.missed, cache->miss_counts, sizeof kept.missed);
    move_counts(&kept.counts, &cache->owner.counts, sizeof kept.counts);
}

/* Returns which caches of a word are to be purged, as a set of bits. If `all` is true, these are all waiting caches. Otherwise they are the caches
 * that already waited at the last epoch. Caches with a ring of traced events are not purged, so that a report can still show the events. */
static uint64_t idle_locked(unsigned word, bool all)
{
    uint64_t idle = 0;
    for (uint64_t left = bits_at(word)->waiting; left != 0; left &= left - 1) {
        const struct hk_tcache *cache = cache_at(word, left);
        if (has_pages(cache->owner.id) && cache->owner.id != HK_NOBODY && hk_load(cache->owner.ring.xevents) == NULL)
            idle |= left & -left;
    }
    uint64_t now = all ? idle : idle & bits_at(word)->aged;
    bits_at(word)->aged = idle;
    return now;
}

/* Purges the caches of these bits, each run of adjacent caches with one call. Returns the bits of the caches that were purged. */
static uint64_t purge_runs(unsigned word, uint64_t bits)
{
    uint64_t gone = 0;
    while (bits != 0) {
        uint64_t run = bits & -bits;
        char *start = (char *)cache_at(word, bits), *end = start + cache_bytes();
        for (uint64_t next = run << 1; (bits & next) != 0 && (char *)cache_at(word, next) == end; next <<= 1) {
            run |= next;
            end += cache_bytes();
        }
        gone |= hk_meta_rest(start, (size_t)(end - start)) ? run : 0;
        bits &= ~run;
    }
    return gone;
}

static void purged_locked(unsigned word, uint64_t bits, uint64_t gone)
{
    hk_owners_wake(word * POOL_WORD, bits & ~gone);
    hk_sub(pool.xresident, hk_popcount64(gone));
    pool.purged = 0;
    wait_locked(word, bits);
}

/* Purges the caches of these bits of a word, and returns the number of purged caches. Releases the lock during the purge. No thread can take the
 * caches then, because their bits in `waiting` are cleared. If the process forks, the child sets the bits again from pool.purged. */
static unsigned purge_word_locked(unsigned word, uint64_t bits)
{
    for (uint64_t left = bits; left != 0; left &= left - 1)
        keep_counts_locked(cache_at(word, left));
    pool.purged_word = word;
    pool.purged = bits;
    bits_at(word)->waiting &= ~bits;
    hk_sub(pool.xwaiting, hk_popcount64(bits));
    hk_unlock(&pool.lock);
    hk_owners_rest(word * POOL_WORD, bits);
    uint64_t gone = purge_runs(word, bits);
    hk_lock(&pool.lock);
    purged_locked(word, bits, gone);
    return hk_popcount64(gone);
}

static size_t purge_waiting_locked(bool all)
{
    unsigned caches = 0;
    if (pool.purging)
        return 0;
    pool.purging = true;
    unsigned words = (hk_owner_end() + POOL_WORD - 1) / POOL_WORD;
    for (unsigned word = 0; word < words && hk_load(pool.xresident) > 0 && (all || caches < MAX_PER_EPOCH); word++) {
        uint64_t bits = idle_locked(word, all);
        if (bits != 0)
            caches += purge_word_locked(word, bits);
    }
    pool.purging = false;
    return caches * cache_bytes();
}

void hk_pool_epoch(uint64_t epoch)
{
    if (HK_LIKELY(hk_load(pool.xresident) == 0 && hk_load(pool.xparked) == 0))
        return;
    hk_lock(&pool.lock);
    if (pool.epoch != epoch) {
        pool.epoch = epoch;
        pool.parked_due = pool.parked_least;
        pool.parked_least = hk_load(pool.xparked);
        purge_waiting_locked(false);
    }
    hk_unlock(&pool.lock);
}

/* Waits for an epoch that is purging caches in another thread. Gives up after a time, because a signal handler may have interrupted that purge. */
size_t hk_pool_purge(void)
{
    hk_lock(&pool.lock);
    for (unsigned pauses = 0; pool.purging && pauses < MOST_PAUSES; pauses++) {
        hk_unlock(&pool.lock);
        hk_os_pause();
        hk_lock(&pool.lock);
    }
    size_t bytes = purge_waiting_locked(true);
    hk_unlock(&pool.lock);
    return bytes;
}

bool hk_pool_left_is_due(void) { return hk_decay_left_is_due(hk_load(pool.xresident) * cache_bytes()); }

/* Returns the sum of one count over all caches. `offset` is the place of the count in a cache. *purged is the sum over the purged caches. */
static uint64_t sum_of(const _Atomic uint64_t *purged, size_t offset)
{
    hk_lock(&pool.lock);
    uint64_t sum = hk_load(*purged);
    for (uint32_t id = hk_owner_next(HK_FIRST_OWNER); id < hk_owner_end(); id = hk_owner_next(id + 1))
        sum += hk_load(*(const _Atomic uint64_t *)(const void *)((char *)hk_tcache_by_id(id) + offset));
    hk_unlock(&pool.lock);
    return sum;
}
#define SUM(in_kept, in_cache) sum_of(&kept.in_kept, offsetof(struct hk_tcache, in_cache))

uint64_t hk_tcaches_refilled(unsigned class, enum hk_source source)
{
    return SUM(missed[class].xcalls[source], miss_counts[class].xcalls[source]);
}
uint64_t hk_tcaches_requested(unsigned class) { return SUM(missed[class].xrequested, miss_counts[class].xrequested); }
uint64_t hk_tcaches_served(unsigned class) { return SUM(xserved[class], hot.bins[class].served); }
uint64_t hk_tcaches_counted(enum hk_stat stat) { return SUM(counts.xvalue[stat], owner.counts.xvalue[stat]); }

void hk_pool_init(void) { hk_lock_register(HK_RANK_LIFE, &pool.lock); }

/* If another thread was purging caches at the fork, ends this purge. A cache counts as purged if it reads as zeros. */
void hk_pool_fork_child(size_t threads)
{
    uint64_t gone = 0;
    for (uint64_t left = pool.purged; left != 0; left &= left - 1)
        if (cache_at(pool.purged_word, left)->owner.id == HK_NOBODY)
            gone |= left & -left;
    purged_locked(pool.purged_word, pool.purged, gone);
    pool.purging = false;
    hk_store(pool.xparked, 0);
    pool.parked_least = pool.parked_due = 0;
    set_alive(threads);
}

struct hk_tcache *hk_tcache_by_id(uint32_t id) { return hk_container_of(hk_owner_by_id(id), struct hk_tcache, owner); }
