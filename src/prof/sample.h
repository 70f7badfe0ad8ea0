/* Sample: keeps the live blocks that sampling picked, and their call sites. The heap profile and the site rules (sites.h) have a set of tables each.
 *
 *   picked:  stack and size -> site (its counters)          address -> one of two buckets of eight places: {address, record, birth}
 *   freed:   filter[address] is 0 --> not a sample (usual); otherwise look up the place; the site's live counts go down; count the block's lifetime
 *
 * Owns       This file owns the tables of sites, places and filters. The tables have a fixed size, and are mapped once. A site is never removed.
 * Invariant  From its allocation to its free, a picked block has one place, and its site counts the block as live. Only the thread that allocates,
 *            resizes or frees the block enters, looks up or removes it. But a reset or an end of a user heap, and the end of attach sampling, remove
 *            samples of user heaps.
 * Threads    Any thread may call the functions, which take no lock and read no block. A place that is reserved at a fork stays so in the child. */
#pragma once

#include "prof/stack.h"

/* Element b of a site's lifetimes is the number of freed blocks that lived at least 2^(b-1) ms and less than 2^b ms, or less than 1 ms if b is 0. */
enum { HK_SAMPLE_SITES = 8192, HK_RULE_SITES = 1024, HK_SAMPLE_LIFETIMES = 33, HK_SAMPLE_FILTER = 32768 };

struct hk_site {
    /* The next fields are constant once the site is published. */
    uint64_t hash;
    unsigned size_bits; /* log2 of the largest size; the sizes of a site differ little, so that scaling is accurate */
    unsigned depth;
    /* Any thread may change the next fields. */
    _Atomic int64_t xlive_blocks, xlive_bytes; /* negative while a thread has updated only some of the counters */
    _Atomic uint64_t xblocks, xbytes;          /* blocks and bytes ever sampled */
    _Atomic uint32_t xlifetimes[HK_SAMPLE_LIFETIMES]; /* numbers of freed blocks, by their age at the free */
    /* constant */
    void *stack[];
};

struct hk_samples {
    /* constant */
    unsigned site_count, place_count;
    _Atomic(struct hk_site *) *xsites;
    _Atomic uintptr_t *xblocks; /* for each place, the address of its block; 0: free, 1: reserved */
    _Atomic uint64_t *xrecords; /* for each place, the record of its block */
    _Atomic uint32_t *xborn;    /* for each place, hk_reuse_now() at the allocation of its block */
    _Atomic uint16_t *xfilter;  /* for each hash of an address, the number of live samples */
};
extern struct hk_samples hk_samples, hk_site_samples;

HK_INLINE uint64_t hk_sample_hash(const void *block)
{
    uint64_t hash = ((uintptr_t)block ^ (uintptr_t)block >> 32) * 0xd6e8feb86659fd93;
    return hash ^ hash >> 32;
}

/* Maps the tables. Returns false if memory is refused. */
bool hk_samples_open(struct hk_samples *samples);

/* Records a picked block. Returns the number of its site, or HK_SAMPLE_SITES if the tables are full or memory is refused. */
unsigned hk_sample_enter(struct hk_samples *samples, const void *block, size_t size, const struct hk_stack *stack);

/* Returns false if the block was certainly not picked, and true if the block may have been picked. Precondition: the tables are mapped. */
HK_INLINE bool hk_sample_may_be(const struct hk_samples *samples, const void *block)
{
    return hk_load(samples->xfilter[hk_sample_hash(block) % HK_SAMPLE_FILTER]) != 0;
}

/* A record holds the number of the site in its lowest HK_SAMPLE_SITE_BITS bits, and the size of the block in the other bits. */
enum { HK_SAMPLE_SITE_BITS = 16 };
HK_INLINE unsigned hk_sample_site(uint64_t record) { return record % (1 << HK_SAMPLE_SITE_BITS); }
HK_INLINE size_t hk_sample_size(uint64_t record) { return record >> HK_SAMPLE_SITE_BITS; }

/* Removes a block before its free or resize. If `frees` is true, counts its lifetime. Returns its record, or 0 if the block was not picked. */
uint64_t hk_sample_lift(const struct hk_samples *samples, const void *block, bool frees);
/* Adds a live block to the tables. Also restores the record of a block whose resize failed. Returns false if no place is free for the block. */
bool hk_sample_put(const struct hk_samples *samples, const void *block, uint64_t record);

/* Calls `visit` for each site. The number of the site is less than HK_SAMPLE_SITES. */
typedef void hk_site_visitor(void *context, const struct hk_site *site, unsigned number);
void hk_sites_visit(const struct hk_samples *samples, hk_site_visitor *visit, void *context);
/* Describes a live sample. Another thread may free the block while a reader looks at the sample. */
struct hk_live_sample {
    const void *block;
    size_t size;
    unsigned number; /* number of its site */
    const struct hk_site *site;
    uint32_t born; /* hk_reuse_now() at the block's allocation */
};
typedef void hk_sample_visitor(void *context, const struct hk_live_sample *sample);
void hk_samples_visit(const struct hk_samples *samples, hk_sample_visitor *visit, void *context);
