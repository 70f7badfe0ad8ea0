/* Sample: tables of live blocks that were picked, and of the call sites that allocated them: one for the heap profile, one for the site rules
 * (sites.h), whose sites are callers alone.
 *
 *   picked:  stack and size -> site (its counters)          address -> one of two buckets of eight places: {address, record, birth}
 *   freed:   filter[address] is 0: not a sample (usual case); otherwise its place is looked up; the site counts down, and its lifetime
 *
 * Owns       the sites, the places and the filter of each table: of a fixed size, mapped once. A site is never removed.
 * Invariant  a picked block has one place, and its site counts it as live, from its allocation to its free. Only the thread that holds the block
 *            enters, looks up or removes it.
 * Threads    any, lock-free. In a fork child the table is consistent, except for places that were being reserved. No block is read. */
#ifndef HK_SAMPLE_H
#define HK_SAMPLE_H

#include "prof/stack.h"

/* Span b counts lifetimes of less than 2^b ms. */
enum { HK_SAMPLE_SITES = 8192, HK_RULE_SITES = 1024, HK_SAMPLE_LIFETIMES = 33 };

struct hk_site {
    /* The next fields are constant once the site is published. */
    uint64_t hash;
    unsigned size_bits; /* log2 of the largest size; sizes differ little, so scaling is accurate */
    unsigned depth;
    /* The next fields are changed by any thread. */
    _Atomic int64_t xlive_blocks, xlive_bytes;
    _Atomic uint64_t xblocks, xbytes;                 /* blocks and bytes ever sampled */
    _Atomic uint32_t xlifetimes[HK_SAMPLE_LIFETIMES]; /* number of freed blocks, by their age at the free */
    /* constant */
    void *stack[];
};

/* Returns the count, 0 if it is negative, because another thread may have updated only some of the site's counters. */
HK_INLINE int64_t hk_site_live(int64_t count) { return count > 0 ? count : 0; }

enum { HK_SAMPLE_FILTER = 32768, HK_SAMPLE_PIECES = 16 };

struct hk_samples {
    /* constant */
    unsigned piece_count, site_count;
    struct hk_sample_bucket *pieces[HK_SAMPLE_PIECES];
    _Atomic(struct hk_site *) *xsites;
    _Atomic uint32_t *xborn;   /* hk_reuse_now() at the allocation, for each place */
    _Atomic uint16_t *xfilter; /* number of samples, by hash of the address */
};
extern struct hk_samples hk_samples, hk_site_samples;

HK_INLINE uint64_t hk_sample_mix(uint64_t x)
{
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93;
    return x ^ (x >> 32);
}
HK_INLINE uint64_t hk_sample_hash(const void *block) { return hk_sample_mix((uintptr_t)block); }

/* Maps the tables. Returns false if memory is refused. */
bool hk_samples_open(struct hk_samples *samples);

/* Records a picked block. Returns the number of its site, HK_SAMPLE_SITES if the tables are full or memory is refused. */
unsigned hk_sample_enter(struct hk_samples *samples, const void *block, size_t size, const struct hk_stack *stack);

/* Returns false only if the block was not picked. Precondition: the tables are mapped. */
HK_INLINE bool hk_sample_may_be(const struct hk_samples *samples, const void *block)
{
    return hk_load(samples->xfilter[hk_sample_hash(block) % HK_SAMPLE_FILTER]) != 0;
}

/* A record is the size, shifted to the left by so many bits, plus the number of the site. */
enum { HK_SAMPLE_SITE_BITS = 16 };
HK_INLINE unsigned hk_sample_site(uint64_t record) { return record % (1 << HK_SAMPLE_SITE_BITS); }
HK_INLINE size_t hk_sample_size(uint64_t record) { return record >> HK_SAMPLE_SITE_BITS; }

/* Removes a block that the caller is about to free. Returns its record, 0 if the block was not picked. */
uint64_t hk_sample_free(struct hk_samples *samples, const void *block);
/* Does the same for a block that is about to be resized. Its lifetime does not count, because the block lives on. */
uint64_t hk_sample_lift(struct hk_samples *samples, const void *block);
/* Restores the record of a block whose resize failed. */
void hk_sample_put_back(struct hk_samples *samples, const void *block, uint64_t record);

/* Calls `visit` for each site. The number of the site is less than HK_SAMPLE_SITES. */
void hk_sites_visit(const struct hk_samples *samples,
                    void (*visit)(void *context, const struct hk_site *site, unsigned number), void *context);
/* Calls `visit` for each live sample. Another thread may free the block at the same time. */
struct hk_live_sample {
    const void *block;
    size_t size;
    unsigned number; /* number of its site */
    const struct hk_site *site;
    uint32_t born; /* hk_reuse_now() at its allocation */
};
void hk_samples_visit(const struct hk_samples *samples,
                      void (*visit)(void *context, const struct hk_live_sample *sample), void *context);

/* The addresses and the layout of the tables of the heap profile, for a reader outside the process (runtime/attach.h). */
struct hk_samples_where {
    uint64_t sites, site_count, site_stack, site_lifetimes, lifetimes;
    uint64_t born, places, piece_buckets, piece_count, pieces, record_site_bits;
};
void hk_samples_where(struct hk_samples_where *where);

#endif
