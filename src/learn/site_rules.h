/* SiteRules: what is to become of the big blocks that one call site frees: a pure function.
 *
 *   of each freed block: when was as much memory wanted again?  soon: within the purge delay: it was still there
 *                                                               late: a purge had taken it, and it had to be faulted in again
 *                                                               gone: not while holding it would have been worth it
 * Owns     nothing.
 * Threads  values. */
#ifndef HK_SITE_RULES_H
#define HK_SITE_RULES_H

#include "base/base.h"

enum hk_site_rule { HK_SITE_NO_RULE, HK_SITE_KEEP_WARM, HK_SITE_PURGE_AT_ONCE, HK_SITE_RULES };
extern const char *const hk_site_rule_names[HK_SITE_RULES];

/* Of a site's freed blocks, those of late. */
struct hk_site_fates {
    uint32_t soon, late, gone;
    uint64_t late_ms; /* how long the late ones lay idle, together */
};

struct hk_site_costs {
    uint64_t delay_ms; /* the purge delay */
    uint64_t worth_ms; /* reuse_worth (options.def) */
};

/* One more block, of which as much was wanted again after idle_ms. What was seen before fades. */
void hk_site_note(struct hk_site_fates *fates, const struct hk_site_costs *costs, uint64_t idle_ms);

/* The rule to follow from now on. A rule in force stays as long as it pays; another one has to pay clearly. */
enum hk_site_rule hk_site_rule_for(const struct hk_site_fates *fates, const struct hk_site_costs *costs,
                                   enum hk_site_rule now);

/* What a rule would have saved, in milliseconds for which a block is held; below zero: it would have cost. */
int64_t hk_site_rule_gain(const struct hk_site_fates *fates, const struct hk_site_costs *costs, enum hk_site_rule rule);

#endif
