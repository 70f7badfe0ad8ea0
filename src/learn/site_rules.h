/* SiteRules: decides the treatment of the large blocks that a call site frees: a pure function.
 *
 *   after each free, when was as much memory requested again?   soon: within the purge delay: still resident
 *                                                               late: after a purge, with page faults
 *                                                               gone: not while holding it would have paid
 * Owns     nothing.
 * Threads  values. */
#ifndef HK_SITE_RULES_H
#define HK_SITE_RULES_H

#include "base/base.h"

enum hk_site_rule { HK_SITE_NO_RULE, HK_SITE_KEEP_WARM, HK_SITE_PURGE_AT_ONCE, HK_SITE_RULES };
extern const char *const hk_site_rule_names[HK_SITE_RULES];

/* Recently freed blocks of a site. */
struct hk_site_fates {
    uint32_t soon, late, gone;
    uint64_t late_ms; /* total idle time of the late ones */
};

struct hk_site_costs {
    uint64_t delay_ms; /* the purge delay */
    uint64_t worth_ms; /* reuse_worth (options.def) */
};

/* Adds a block whose memory was reused after idle_ms. Earlier blocks fade. */
void hk_site_note(struct hk_site_fates *fates, const struct hk_site_costs *costs, uint64_t idle_ms);

/* Returns the rule for the next blocks. A rule in force stays while it saves anything; a new one must save clearly. */
enum hk_site_rule hk_site_rule_for(const struct hk_site_fates *fates, const struct hk_site_costs *costs,
                                   enum hk_site_rule now);

/* The savings of a rule, in milliseconds of holding a block; negative for a loss. */
int64_t hk_site_rule_gain(const struct hk_site_fates *fates, const struct hk_site_costs *costs, enum hk_site_rule rule);

#endif
