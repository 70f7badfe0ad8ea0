/* Sample: which live blocks were picked for the heap profile, and whose calls allocated them.
 *
 *   picked:  stack and size -> site (its counters)          address -> one of two buckets of eight places: {address, record}
 *   freed:   filter[address] is 0: not one of them, nearly always; else its place is found, and the site counts down
 *
 * Owns       the sites, the places, the filter: fixed tables, opened once; a site stays for good.
 * Invariant  a picked block has one place from when it is allocated until it is freed, and counts in its site's live ones
 *            exactly as long. Only who holds a block enters or lifts it, so that nobody else looks for it meanwhile.
 * Threads    any, no lock: a fork child has a table that is whole, but for a place that was just being taken.
 * Never      reads a block. */
#ifndef HK_SAMPLE_H
#define HK_SAMPLE_H

#include "prof/stack.h"

struct hk_site {
    /* constant once it can be found */
    uint64_t hash;
    unsigned size_bits; /* of its blocks' sizes: what readers reckon from their mean is then right for each */
    unsigned depth;
    /* shared */
    _Atomic int64_t xlive_blocks, xlive_bytes;
    _Atomic uint64_t xblocks, xbytes; /* ever */
    /* constant */
    void *stack[];
};

enum { HK_SAMPLE_FILTER = 32768 };
extern _Atomic uint16_t *hk_sample_filter; /* how many are picked, by hash */

HK_INLINE uint64_t hk_sample_mix(uint64_t x)
{
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93;
    return x ^ (x >> 32);
}
HK_INLINE uint64_t hk_sample_hash(const void *block) { return hk_sample_mix((uintptr_t)block); }

/* Memory for the tables; false if it is refused. */
bool hk_samples_open(void);

/* A block that was picked. False if there is no room or memory: then nothing remembers it. */
bool hk_sample_enter(const void *block, size_t size, const struct hk_stack *stack);

/* False: it was not picked, and nothing else needs to be asked. Open tables only. */
HK_INLINE bool hk_sample_may_be(const void *block)
{
    return hk_load(hk_sample_filter[hk_sample_hash(block) % HK_SAMPLE_FILTER]) != 0;
}

/* Takes out a block that is about to be freed or resized. 0 if it was not picked. */
uint64_t hk_sample_lift(const void *block);
/* Puts it in again, as it was: it was not resized after all. */
void hk_sample_put_back(const void *block, uint64_t record);

/* Calls visit for each site. */
void hk_sites_visit(void (*visit)(void *context, const struct hk_site *site), void *context);

#endif
