/* Keeps samples by address and call sites by stack, in tables that need no lock. */
#include "prof/sample.h"
#include "count/stats.h"
#include "span/meta.h"

enum {
    PLACES = 8,     /* places per bucket; the addresses of 8 blocks fill one cache line */
    BUCKETS = 8192, /* room for 64 Ki live samples, which is 32 GiB of heap at the default mean */
    RULE_BUCKETS = 512,
    NEIGHBORS = 64,
    SITES_ASKED = 512,
};
#define BUSY ((uintptr_t)1) /* marks a reserved place */

_Static_assert(HK_SAMPLE_FILTER % BUCKETS == 0 && PLACES * (NEIGHBORS + 1) <= UINT16_MAX,
               "a filter cell cannot overflow");
_Static_assert(HK_SAMPLE_SITES <= 1 << HK_SAMPLE_SITE_BITS, "a record has room for a site");

struct hk_samples hk_samples;
struct hk_samples hk_site_samples HK_COLD_DATA;

bool hk_samples_open(struct hk_samples *samples)
{
    bool of_profile = samples == &hk_samples;
    samples->site_count = of_profile ? HK_SAMPLE_SITES : HK_RULE_SITES;
    samples->place_count = (of_profile ? BUCKETS : RULE_BUCKETS) * PLACES;
    if (samples->xfilter != NULL)
        return true; /* an earlier call has mapped the tables */
    return (samples->xblocks = hk_meta_alloc(samples->place_count * sizeof *samples->xblocks)) != NULL &&
           (samples->xrecords = hk_meta_alloc(samples->place_count * sizeof *samples->xrecords)) != NULL &&
           (samples->xborn = hk_meta_alloc(samples->place_count * sizeof *samples->xborn)) != NULL &&
           (samples->xsites = hk_meta_alloc(samples->site_count * sizeof *samples->xsites)) != NULL &&
           (samples->xfilter = hk_meta_alloc(HK_SAMPLE_FILTER * sizeof *samples->xfilter)) != NULL;
}

static _Atomic uint16_t *cell_of(const struct hk_samples *samples, uint64_t hash)
{
    return &samples->xfilter[hash % HK_SAMPLE_FILTER];
}

/* Returns place number n of the places that may hold a block. The places form two buckets, because a second one makes a free place more likely. */
static size_t place_at(const struct hk_samples *samples, uint64_t hash, unsigned n)
{
    size_t bucket = hash % (samples->place_count / PLACES);
    if (n >= PLACES)
        bucket ^= 1 + (hash >> 48) % (NEIGHBORS - 1);
    return bucket * PLACES + n % PLACES;
}

static struct hk_site *site_of(const struct hk_samples *samples, uint64_t record)
{
    return hk_load_acquire(samples->xsites[hk_sample_site(record)]);
}

static void count_live(const struct hk_samples *samples, uint64_t record, int64_t blocks)
{
    struct hk_site *site = site_of(samples, record);
    hk_add(site->xlive_blocks, blocks);
    hk_add(site->xlive_bytes, blocks * (int64_t)hk_sample_size(record));
}

/* Counts the block in the filter first, because the thread that frees the block must never read 0 from the filter. */
bool hk_sample_put(const struct hk_samples *samples, const void *block, uint64_t record)
{
    uint64_t hash = hk_sample_hash(block);
    hk_add(*cell_of(samples, hash), 1);
    for (unsigned n = 0; n < 2 * PLACES; n++) {
        size_t place = place_at(samples, hash, n);
        uintptr_t free = 0;
        if (!hk_replace(samples->xblocks[place], &free, BUSY, memory_order_relaxed))
            continue;
        hk_store(samples->xrecords[place], record);
        hk_store(samples->xborn[place], (uint32_t)hk_reuse_now());
        hk_store_release(samples->xblocks[place], (uintptr_t)block);
        count_live(samples, record, 1);
        return true;
    }
    hk_sub(*cell_of(samples, hash), 1);
    return false;
}

uint64_t hk_sample_lift(const struct hk_samples *samples, const void *block, bool frees)
{
    uint64_t hash = hk_sample_hash(block);
    for (unsigned n = 0; n < 2 * PLACES; n++) {
        size_t place = place_at(samples, hash, n);
        uintptr_t expected = (uintptr_t)block;
        if (hk_load_acquire(samples->xblocks[place]) != expected)
            continue;
        uint64_t record = hk_load(samples->xrecords[place]);
        uint32_t ms = (uint32_t)hk_reuse_now() - hk_load(samples->xborn[place]);
        if (!hk_replace(samples->xblocks[place], &expected, 0, memory_order_release))
            continue;
        if (record == 0)
            return 0;
        hk_sub(*cell_of(samples, hash), 1);
        count_live(samples, record, -1);
        if (frees)
            hk_add(site_of(samples, record)->xlifetimes[ms == 0 ? 0 : 32 - (unsigned)__builtin_clz(ms)], 1);
        return record;
    }
    return 0;
}

/* Returns the number of the site, and adds the site if no thread has added it yet. Returns HK_SAMPLE_SITES if there is no room or no memory. */
static unsigned find_site(struct hk_samples *samples, const struct hk_stack *stack, unsigned size_bits)
{
    uint64_t hash = hk_stack_hash(stack, size_bits);
    size_t frames = stack->depth * sizeof(void *), bytes = sizeof(struct hk_site) + frames;
    for (unsigned requested = 0; requested < SITES_ASKED; requested++) {
        unsigned number = (unsigned)((hash + requested) % samples->site_count);
        struct hk_site *site = hk_load_acquire(samples->xsites[number]), *mine;
        if (site == NULL) {
            if ((mine = hk_meta_alloc(bytes)) == NULL)
                return HK_SAMPLE_SITES;
            *mine = (struct hk_site){.hash = hash, .size_bits = size_bits, .depth = stack->depth};
            memcpy(mine->stack, stack->frames, frames);
            if (atomic_compare_exchange_strong_explicit(&samples->xsites[number], &site, mine, memory_order_acq_rel,
                                                        memory_order_acquire))
                return number;
            hk_meta_free(mine, bytes);
        }
        if (site->hash == hash && site->size_bits == size_bits && site->depth == stack->depth &&
            memcmp(site->stack, stack->frames, frames) == 0)
            return number;
    }
    return HK_SAMPLE_SITES;
}

unsigned hk_sample_enter(struct hk_samples *samples, const void *block, size_t size, const struct hk_stack *stack)
{
    unsigned number = find_site(samples, stack, hk_ctz64(hk_pow2_from(size)));
    uint64_t record = (uint64_t)size << HK_SAMPLE_SITE_BITS | number;
    if (number == HK_SAMPLE_SITES || !hk_sample_put(samples, block, record))
        return HK_SAMPLE_SITES;
    struct hk_site *site = site_of(samples, record);
    hk_add(site->xblocks, 1);
    hk_add(site->xbytes, size);
    return number;
}

void hk_sites_visit(const struct hk_samples *samples, hk_site_visitor *visit, void *context)
{
    for (unsigned number = 0; number < samples->site_count; number++) {
        const struct hk_site *site = hk_load_acquire(samples->xsites[number]);
        if (site != NULL)
            visit(context, site, number);
    }
}

void hk_samples_visit(const struct hk_samples *samples, hk_sample_visitor *visit, void *context)
{
    for (size_t place = 0; place < samples->place_count; place++) {
        uintptr_t block = hk_load_acquire(samples->xblocks[place]);
        uint64_t record = block > BUSY ? hk_load(samples->xrecords[place]) : 0;
        if (record != 0)
            visit(context, &(struct hk_live_sample){(const void *)block, hk_sample_size(record), hk_sample_site(record),
                                                    site_of(samples, record), hk_load(samples->xborn[place])});
    }
}
