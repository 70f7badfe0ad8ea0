/* Sites: the call sites that allocate blocks of more than 1 KiB, and what becomes of the memory of their large blocks.
 *
 *   alloc: picked? -> a sample (sample.h), whose site is a caller and a power of two of sizes
 *   free:  the site's lifetimes            large: a ghost of the block waits for a request that fits
 *   alloc: large -> the newest ghost that fits: its age is the idle time -> the ghost's site -> its rule
 *
 * Owns       the table hk_site_samples, and the rules and the ghosts: mapped once.
 * Invariant  ghosts ignore what happened to the memory, so they observe the same in watch mode and under a rule.
 * Threads    any; one lock, of the rules and the ghosts.
 * Never      reads a block. */
#ifndef HK_SITES_H
#define HK_SITES_H

#include "count/countdown.h"
#include "learn/site_rules.h"
#include "prof/sample.h"

enum { HK_SITE_LIFE_MS = 30 * 60 * 1000 };
/* Blocks up to HK_SITES_FROM are ignored, larger ones sampled, those over HK_SITES_LARGE all recorded. */
#define HK_SITES_FROM (1 * HK_KIB)
#define HK_SITES_LARGE (1 * HK_MIB)

/* Maps the tables; false on failure. */
bool hk_sites_open(void);

/* A block of more than HK_SITES_FROM bytes was allocated, or, if not `fresh`, resized. `countdown` is the thread's;
 * NULL if it has none. */
void hk_sites_alloc(struct hk_countdown *countdown, const void *block, size_t size, void *caller, bool fresh);

/* Called before a free; returns the rule for the block. Only large blocks have one, and none in watch mode. */
enum hk_site_rule hk_sites_free(const void *block);

/* The time until which the keep rule holds a block. */
uint64_t hk_site_keep_until(void);

struct hk_site_line {
    const void *caller;
    size_t block;         /* the upper bound of its sizes, a power of two */
    uint64_t live, bytes; /* current and total; estimates for blocks up to HK_SITES_LARGE */
    uint64_t lifetime_ms; /* the median, rounded up to a power of two; 0 if none was freed */
    enum hk_site_rule rule;
    uint64_t saved, wasted; /* bytes for which the rule was right, and wrong */
};

/* Lists the sites with most live bytes among those seen in the last half hour; returns their number. */
unsigned hk_sites_top(struct hk_site_line *lines, unsigned most);

/* At the start: fork takes its lock. */
void hk_sites_init(void);

#endif
