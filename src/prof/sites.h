/* Sites: observes the call sites that allocate blocks of more than 1 KiB, and how soon the memory of their blocks of 64 KiB and more is reused.
 *
 *   alloc: picked, or more than 32 KiB -> a sample (sample.h), whose site is a call stack and the size rounded up to a power of two
 *   free:  counts in the site's lifetimes; from 64 KiB on, a ghost of the block waits for a request that fits
 *   alloc: from 64 KiB -> the newest ghost that fits: its age is the idle time -> the ghost's site -> its rule
 *
 * Owns       This file owns the table hk_site_samples, the rules and the ghosts. The tables are mapped once. This file never reads a block.
 * Invariant  A ghost does not depend on what happened to the memory of its block. So ghosts observe the same reuse with a rule as in watch mode.
 * Threads    Any thread may call the functions. One lock protects the rules and the ghosts. */
#pragma once

#include "count/countdown.h"
#include "prof/sample.h"

enum hk_site_rule { HK_SITE_NO_RULE, HK_SITE_KEEP_WARM, HK_SITE_PURGE_AT_ONCE, HK_SITE_RULES };
extern const char *const hk_site_rule_names[HK_SITE_RULES];

/* Counts the recently freed blocks of a site by the time from their free until the program requested as much memory again. */
struct hk_site_fates {
    uint32_t soon;    /* blocks reused within the purge delay, while their pages were still resident */
    uint32_t late;    /* blocks reused later, but within worth_ms, with page faults because a purge came before */
    uint32_t gone;    /* blocks not reused within worth_ms, which means that holding them cost more than a page fault */
    uint64_t late_ms; /* total idle time of the late blocks */
};

struct hk_site_costs {
    uint64_t delay_ms; /* the purge delay */
    uint64_t worth_ms; /* holding a block for this time costs as much as a page fault: reuse_worth (options.def) */
};

/* Adds a block whose memory was reused after idle_ms, and gives earlier blocks less weight. This function and the next two only use arguments. */
void hk_site_note(struct hk_site_fates *fates, const struct hk_site_costs *costs, uint64_t idle_ms);

/* Returns the rule for the next blocks of the site. Keeps the current rule unless it costs more than it saves, or another rule saves clearly more. */
enum hk_site_rule hk_site_rule_for(const struct hk_site_fates *fates, const struct hk_site_costs *costs,
                                   enum hk_site_rule now);

/* Returns the gain of a rule, in milliseconds of holding a block. A loss is negative. */
int64_t hk_site_rule_gain(const struct hk_site_fates *fates, const struct hk_site_costs *costs, enum hk_site_rule rule);

enum { HK_SITE_LIFE_MS = 30 * 60 * 1000 };
/* Blocks of up to HK_SITES_FROM are ignored. Larger blocks of up to HK_SITES_SAMPLED are sampled. All other blocks are recorded. HK_SITES_SAMPLED is
 * a power of two, so that all blocks of a site are sampled, or all are recorded. Blocks from HK_SITES_RULED on can have a rule. */
#define HK_SITES_FROM (1 * HK_KIB)
#define HK_SITES_SAMPLED (32 * HK_KIB)
#define HK_SITES_RULED (64 * HK_KIB)

/* Maps the tables. Returns false if memory is refused. */
bool hk_sites_open(void);

/* Notes a new block of more than HK_SITES_FROM bytes or, if `fresh` is false, a resized one. `countdown` is the thread's countdown, or NULL. */
void hk_sites_alloc(struct hk_countdown *countdown, const void *block, size_t size, void *caller, bool fresh);

/* Records that a block is about to be freed. Returns the rule of the block's site. In watch mode, returns HK_SITE_NO_RULE. */
enum hk_site_rule hk_sites_free(const void *block);

struct hk_site_line {
    const struct hk_site *site;
    uint64_t live, bytes; /* live bytes, and bytes ever allocated; estimates for blocks of up to HK_SITES_SAMPLED */
    uint64_t lifetime_ms; /* median, rounded up to a power of two; 0: no block was freed */
    enum hk_site_rule rule;
    uint64_t saved, wasted; /* bytes of blocks for which the rule was right, and bytes for which it was wrong */
};

/* Lists the sites that have allocated in the last half hour, with the most live bytes first. Returns the number of listed sites. */
unsigned hk_sites_top(struct hk_site_line *lines, unsigned most);

void hk_sites_init(void);
