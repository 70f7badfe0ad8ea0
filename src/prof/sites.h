/* Sites: which calls allocate mid, large and big blocks, how long these live, and what becomes of the memory of big ones.
 *
 *   alloc: picked? -> (caller, size) -> site                     address -> one of two places: {address, site, when, weight}
 *   free:  address in its place? -> the site's lifetimes         big: a ghost of the block waits for a request that fits
 *   alloc: big -> the newest ghost that fits: so long would the memory have lain idle -> the ghost's site -> its rule
 *
 * Owns       the sites, the places, the ghosts: fixed tables, opened once. A site is a caller and sizes of one power of two.
 * Invariant  ghosts do not ask what was done with the memory: what is seen is the same in watch mode and under a rule. Only who
 *            holds a block enters or lifts it.
 * Threads    any, one lock; whether a block may be there is asked without it.
 * Never      reads a block. */
#ifndef HK_SITES_H
#define HK_SITES_H

#include "count/countdown.h"
#include "learn/site_rules.h"
#include "prof/sample.h"

enum { HK_SITES = 100, HK_SITE_PLACES = 4096, HK_SITE_LIFE_MS = 30 * 60 * 1000 };
/* Smaller blocks are nobody's business here, larger than the second are each looked at. */
#define HK_SITES_FROM (1 * HK_KIB)
#define HK_SITES_BIG (1 * HK_MIB)

extern _Atomic uintptr_t *hk_site_places;

/* Memory for the tables; false if it is refused. */
bool hk_sites_open(void);

/* A block of more than HK_SITES_FROM bytes was given out, or, if it is not fresh, resized. `countdown` is the thread's, NULL where it
 * has none. */
void hk_sites_alloc(struct hk_countdown *countdown, const void *block, size_t size, const void *caller, bool fresh);

HK_INLINE size_t hk_site_place(const void *block) { return hk_sample_hash(block) % (HK_SITE_PLACES / 2) * 2; }

/* False: it was not picked. Open tables only. */
HK_INLINE bool hk_sites_may_hold(const void *block)
{
    const _Atomic uintptr_t *pair = hk_site_places + hk_site_place(block);
    return hk_load(pair[0]) == (uintptr_t)block || hk_load(pair[1]) == (uintptr_t)block;
}

/* The block is about to be freed: by which rule? Only big blocks have one, and where rules are only watched, none has. */
enum hk_site_rule hk_sites_free(const void *block);
/* It is about to be resized, where it is or elsewhere: its memory does not come free. What then cannot be resized is forgotten. */
void hk_sites_resize(const void *block);

/* For how long a block is to be kept by the rule that keeps. */
uint64_t hk_site_keep_until(void);

struct hk_site_line {
    const void *caller;
    size_t block;         /* the largest of its sizes, as a power of two */
    uint64_t live, bytes; /* now and ever; of blocks of less than HK_SITES_BIG estimates */
    uint64_t lifetime_ms; /* the median, rounded up to a power of two; 0 where none was freed */
    enum hk_site_rule rule;
    uint64_t saved, wasted; /* bytes: what the rule was right about, and wrong */
};

/* The sites with most live bytes, of those seen in the last half hour. Their number. */
unsigned hk_sites_top(struct hk_site_line *lines, unsigned most);

/* At the start: fork takes its lock. */
void hk_sites_init(void);

#endif
