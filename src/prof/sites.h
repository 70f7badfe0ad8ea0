/* Sites: the call sites that allocate blocks of more than 1 KiB, and how soon the memory of their large blocks is reused.
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
#include "prof/sample.h"

enum hk_site_rule { HK_SITE_NO_RULE, HK_SITE_KEEP_WARM, HK_SITE_PURGE_AT_ONCE, HK_SITE_RULES };
extern const char *const hk_site_rule_names[HK_SITE_RULES];

/* Recently freed blocks of a site, by when as much memory was requested again. */
struct hk_site_fates {
    uint32_t soon;    /* within the purge delay: still resident */
    uint32_t late;    /* after a purge, with page faults */
    uint32_t gone;    /* not while holding it would have paid */
    uint64_t late_ms; /* total idle time of the late ones */
};

struct hk_site_costs {
    uint64_t delay_ms; /* the purge delay */
    uint64_t worth_ms; /* reuse_worth (options.def) */
};

/* These three are pure functions. Adds a block whose memory was reused after idle_ms, and lets earlier blocks fade. */
void hk_site_note(struct hk_site_fates *fates, const struct hk_site_costs *costs, uint64_t idle_ms);

/* Returns the rule for the next blocks. A rule in force stays while it saves anything; a new one must save clearly. */
enum hk_site_rule hk_site_rule_for(const struct hk_site_fates *fates, const struct hk_site_costs *costs,
                                   enum hk_site_rule now);

/* The savings of a rule, in milliseconds of holding a block; negative for a loss. */
int64_t hk_site_rule_gain(const struct hk_site_fates *fates, const struct hk_site_costs *costs, enum hk_site_rule rule);

enum { HK_SITE_LIFE_MS = 30 * 60 * 1000 };
/* Blocks up to HK_SITES_FROM are ignored, larger ones sampled, those over HK_SITES_LARGE all recorded. */
#define HK_SITES_FROM (1 * HK_KIB)
#define HK_SITES_LARGE (1 * HK_MIB)

/* Maps the tables; false on failure. */
bool hk_sites_open(void);

/* A block of more than HK_SITES_FROM bytes was allocated, or, if not `fresh`, resized. `countdown` is the thread's; NULL if it has none. */
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
