/* Sites: the call sites that allocate blocks of more than 1 KiB, the lifetimes of these blocks, and the reuse of big ones.
 *
 *   alloc: picked? -> (caller, size) -> site                     address -> one of two places: {address, site, when, weight}
 *   free:  address in its place? -> the site's lifetimes         big: a ghost of the block waits for a request that fits
 *   alloc: big -> the newest ghost that fits: its age is the idle time -> the ghost's site -> its rule
 *
 * Owns       the sites, the places, the ghosts: fixed tables, mapped once. A site is a caller and a power of two of sizes.
 * Invariant  ghosts ignore what happened to the memory, so they observe the same in watch mode and under a rule. Only the
 *            thread that holds a block enters or removes it.
 * Threads    any, one lock; hk_sites_may_hold takes none.
 * Never      reads a block. */
#ifndef HK_SITES_H
#define HK_SITES_H

#include "count/countdown.h"
#include "learn/site_rules.h"
#include "prof/sample.h"

enum { HK_SITES = 100, HK_SITE_PLACES = 4096, HK_SITE_LIFE_MS = 30 * 60 * 1000 };
/* Blocks up to HK_SITES_FROM are ignored, larger ones sampled, those over HK_SITES_BIG all recorded. */
#define HK_SITES_FROM (1 * HK_KIB)
#define HK_SITES_BIG (1 * HK_MIB)

extern _Atomic uintptr_t *hk_site_places;

/* Maps the tables; false on failure. */
bool hk_sites_open(void);

/* A block of more than HK_SITES_FROM bytes was allocated, or, if not `fresh`, resized. `countdown` is the thread's;
 * NULL if it has none. */
void hk_sites_alloc(struct hk_countdown *countdown, const void *block, size_t size, const void *caller, bool fresh);

HK_INLINE size_t hk_site_place(const void *block) { return hk_sample_hash(block) % (HK_SITE_PLACES / 2) * 2; }

/* Returns false if the block was not picked. Precondition: the tables are mapped. */
HK_INLINE bool hk_sites_may_hold(const void *block)
{
    const _Atomic uintptr_t *pair = hk_site_places + hk_site_place(block);
    return hk_load(pair[0]) == (uintptr_t)block || hk_load(pair[1]) == (uintptr_t)block;
}

/* Called before a free; returns the rule for the block. Only big blocks have one, and none in watch mode. */
enum hk_site_rule hk_sites_free(const void *block);
/* Called before a resize, in place or not: forgets the block, for its memory does not become free. */
void hk_sites_resize(const void *block);

/* The time until which the keep rule holds a block. */
uint64_t hk_site_keep_until(void);

struct hk_site_line {
    const void *caller;
    size_t block;         /* the upper bound of its sizes, a power of two */
    uint64_t live, bytes; /* current and total; estimates for blocks up to HK_SITES_BIG */
    uint64_t lifetime_ms; /* the median, rounded up to a power of two; 0 if none was freed */
    enum hk_site_rule rule;
    uint64_t saved, wasted; /* bytes for which the rule was right, and wrong */
};

/* Lists the sites with most live bytes among those seen in the last half hour; returns their number. */
unsigned hk_sites_top(struct hk_site_line *lines, unsigned most);

/* At the start: fork takes its lock. */
void hk_sites_init(void);

#endif
