#include "prof/sample.h"

#include <string.h>

#include "count/reuse.h"
#include "span/meta.h"

enum {
    PLACES = 8, /* per bucket: their addresses share a cache line */
    PIECE_BUCKETS = 512,
    PIECES = 16, /* 64 Ki live samples: 32 GiB of heap at the default mean */
    BUCKETS = PIECE_BUCKETS * PIECES,
    NEIGHBORS = 64,
    SITES = HK_SAMPLE_SITES,
    SITES_ASKED = 512,
    SITE_BITS = 16,
};
#define BUSY ((uintptr_t)1) /* a reserved place */

struct bucket {
    _Atomic uintptr_t xblock[PLACES];
    _Atomic uint64_t xrecord[PLACES]; /* size << SITE_BITS | site */
};
_Static_assert(HK_SAMPLE_FILTER % BUCKETS == 0 && PLACES * (NEIGHBORS + 1) <= UINT16_MAX,
               "a filter cell cannot overflow");
_Static_assert(SITES <= 1 << SITE_BITS, "a record has room for a site");

static struct {
    struct bucket *pieces[PIECES];
    _Atomic(struct hk_site *) *xsites;
    _Atomic uint32_t *xborn; /* of each place: hk_reuse_now() at its allocation */
} sampled;

_Atomic uint16_t *hk_sample_filter;

bool hk_samples_open(void)
{
    for (unsigned i = 0; i < PIECES; i++)
        if (sampled.pieces[i] == NULL &&
            (sampled.pieces[i] = hk_meta_alloc(PIECE_BUCKETS * sizeof(struct bucket))) == NULL)
            return false;
    hk_sample_filter = hk_meta_alloc(HK_SAMPLE_FILTER * sizeof *hk_sample_filter);
    sampled.xsites = hk_meta_alloc(SITES * sizeof *sampled.xsites);
    sampled.xborn = hk_meta_alloc(BUCKETS * PLACES * sizeof *sampled.xborn);
    return hk_sample_filter != NULL && sampled.xsites != NULL && sampled.xborn != NULL;
}

void hk_samples_where(struct hk_samples_where *where)
{
    *where = (struct hk_samples_where){.sites = (uintptr_t)sampled.xsites,
                                       .site_count = SITES,
                                       .site_stack = offsetof(struct hk_site, stack),
                                       .site_lifetimes = offsetof(struct hk_site, xlifetimes),
                                       .lifetimes = HK_SAMPLE_LIFETIMES,
                                       .born = (uintptr_t)sampled.xborn,
                                       .places = PLACES,
                                       .piece_buckets = PIECE_BUCKETS,
                                       .piece_count = PIECES,
                                       .pieces = (uintptr_t)sampled.pieces,
                                       .record_site_bits = SITE_BITS};
}

static _Atomic uint16_t *cell_of(uint64_t hash) { return &hk_sample_filter[hash % HK_SAMPLE_FILTER]; }

/* The first bucket or its neighbor: twice the chance of a free place. */
static size_t bucket_of(uint64_t hash, bool second)
{
    size_t number = hash % BUCKETS;
    return second ? number ^ (1 + (hash >> 48) % (NEIGHBORS - 1)) : number;
}

static struct bucket *bucket_at(size_t number)
{
    return &sampled.pieces[number / PIECE_BUCKETS][number % PIECE_BUCKETS];
}

static bool take_place(size_t number, const void *block, uint64_t record)
{
    struct bucket *bucket = bucket_at(number);
    for (unsigned i = 0; i < PLACES; i++) {
        uintptr_t free = 0;
        if (!atomic_compare_exchange_strong_explicit(&bucket->xblock[i], &free, BUSY, memory_order_relaxed,
                                                     memory_order_relaxed))
            continue;
        hk_store(bucket->xrecord[i], record);
        hk_store(sampled.xborn[number * PLACES + i], (uint32_t)hk_reuse_now());
        hk_store_release(bucket->xblock[i], (uintptr_t)block);
        return true;
    }
    return false;
}

static uint64_t leave_place(size_t number, const void *block, uint32_t *born)
{
    struct bucket *bucket = bucket_at(number);
    for (unsigned i = 0; i < PLACES; i++) {
        if (hk_load_acquire(bucket->xblock[i]) != (uintptr_t)block)
            continue;
        uint64_t record = hk_load(bucket->xrecord[i]);
        *born = hk_load(sampled.xborn[number * PLACES + i]);
        hk_store_release(bucket->xblock[i], 0);
        return record;
    }
    return 0;
}

static struct hk_site *site_of(uint64_t record) { return hk_load_acquire(sampled.xsites[record % (1 << SITE_BITS)]); }

static void count_live(uint64_t record, int64_t blocks)
{
    struct hk_site *site = site_of(record);
    hk_add(site->xlive_blocks, blocks);
    hk_add(site->xlive_bytes, blocks * (int64_t)(record >> SITE_BITS));
}

/* Updates the filter before it fills the place, and after it clears the place, so that the thread that frees the block
 * never sees 0. */
static bool put(const void *block, uint64_t record)
{
    uint64_t hash = hk_sample_hash(block);
    hk_add(*cell_of(hash), 1);
    bool placed = take_place(bucket_of(hash, false), block, record) || take_place(bucket_of(hash, true), block, record);
    if (placed)
        count_live(record, 1);
    else
        hk_sub(*cell_of(hash), 1);
    return placed;
}

void hk_sample_put_back(const void *block, uint64_t record)
{
    if (record != 0)
        (void)put(block, record);
}

static uint64_t lift(const void *block, uint32_t *born)
{
    uint64_t hash = hk_sample_hash(block);
    uint64_t record = leave_place(bucket_of(hash, false), block, born);
    if (record == 0)
        record = leave_place(bucket_of(hash, true), block, born);
    if (record == 0)
        return 0;
    hk_sub(*cell_of(hash), 1);
    count_live(record, -1);
    return record;
}

uint64_t hk_sample_lift(const void *block)
{
    uint32_t born;
    return lift(block, &born);
}

bool hk_sample_free(const void *block)
{
    uint32_t born;
    uint64_t record = lift(block, &born);
    if (record == 0)
        return false;
    uint32_t ms = (uint32_t)hk_reuse_now() - born;
    unsigned span = ms == 0 ? 0 : 32 - (unsigned)__builtin_clz(ms);
    hk_add(site_of(record)->xlifetimes[span], 1);
    return true;
}

/* The power of two up to which the size counts: so many size classes, whole. */
static unsigned bits_of(size_t size) { return size <= 1 ? 0 : 64 - (unsigned)__builtin_clzll(size - 1); }

static uint64_t hash_of_stack(const struct hk_stack *stack, unsigned size_bits)
{
    uint64_t hash = size_bits;
    for (unsigned i = 0; i < stack->depth; i++)
        hash = hk_sample_mix(hash * 31 + (uintptr_t)stack->frames[i]);
    return hash;
}

static bool is_site_of(const struct hk_site *site, uint64_t hash, const struct hk_stack *stack, unsigned size_bits)
{
    return site->hash == hash && site->size_bits == size_bits && site->depth == stack->depth &&
           memcmp(site->stack, stack->frames, stack->depth * sizeof(void *)) == 0;
}

static size_t site_bytes(unsigned depth) { return sizeof(struct hk_site) + depth * sizeof(void *); }

static struct hk_site *new_site(uint64_t hash, const struct hk_stack *stack, unsigned size_bits)
{
    struct hk_site *site = hk_meta_alloc(site_bytes(stack->depth));
    if (site == NULL)
        return NULL;
    site->hash = hash;
    site->size_bits = size_bits;
    site->depth = stack->depth;
    memcpy(site->stack, stack->frames, stack->depth * sizeof(void *));
    return site;
}

/* Installs the site in a slot that was empty. Returns the winner: the site, or another one installed first. */
static struct hk_site *install_site(_Atomic(struct hk_site *) *slot, struct hk_site *site)
{
    struct hk_site *there = NULL;
    if (atomic_compare_exchange_strong_explicit(slot, &there, site, memory_order_acq_rel, memory_order_acquire))
        return site;
    hk_meta_free(site, site_bytes(site->depth));
    return there;
}

/* Returns the site's number; SITES if the tables are full or memory is refused. */
static unsigned find_site(const struct hk_stack *stack, unsigned size_bits)
{
    uint64_t hash = hash_of_stack(stack, size_bits);
    for (unsigned requested = 0; requested < SITES_ASKED; requested++) {
        unsigned number = (unsigned)((hash + requested) % SITES);
        struct hk_site *site = hk_load_acquire(sampled.xsites[number]);
        if (site == NULL) {
            site = new_site(hash, stack, size_bits);
            if (site == NULL)
                return SITES;
            site = install_site(&sampled.xsites[number], site);
        }
        if (is_site_of(site, hash, stack, size_bits))
            return number;
    }
    return SITES;
}

bool hk_sample_enter(const void *block, size_t size, const struct hk_stack *stack)
{
    unsigned number = find_site(stack, bits_of(size));
    uint64_t record = (uint64_t)size << SITE_BITS | number;
    if (number == SITES || !put(block, record))
        return false;
    struct hk_site *site = site_of(record);
    hk_add(site->xblocks, 1);
    hk_add(site->xbytes, size);
    return true;
}

void hk_sites_visit(void (*visit)(void *context, const struct hk_site *site, unsigned number), void *context)
{
    for (unsigned number = 0; number < SITES; number++) {
        const struct hk_site *site = hk_load_acquire(sampled.xsites[number]);
        if (site != NULL)
            visit(context, site, number);
    }
}

static void visit_place(size_t place, void (*visit)(void *context, const struct hk_live_sample *sample), void *context)
{
    const struct bucket *bucket = bucket_at(place / PLACES);
    uintptr_t block = hk_load_acquire(bucket->xblock[place % PLACES]);
    uint64_t record = hk_load(bucket->xrecord[place % PLACES]);
    if (block <= BUSY || record == 0)
        return;
    visit(context, &(struct hk_live_sample){.block = (const void *)block,
                                            .size = (size_t)(record >> SITE_BITS),
                                            .number = (unsigned)(record % (1 << SITE_BITS)),
                                            .site = site_of(record),
                                            .born = hk_load(sampled.xborn[place])});
}

void hk_samples_visit(void (*visit)(void *context, const struct hk_live_sample *sample), void *context)
{
    for (size_t place = 0; place < (size_t)BUCKETS * PLACES; place++)
        visit_place(place, visit, context);
}
