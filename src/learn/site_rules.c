/* Chooses how the large blocks of a call site are treated, by what each treatment would have cost. */
#include "learn/site_rules.h"

enum {
    FADE_FROM = 32,  /* blocks: half of the history is forgotten */
    LEAST_FATES = 4, /* the fewest blocks that a rule is based on */
    CLEAR_PART = 16, /* divisor: the part of a page fault per block that a rule must save */
    WAITED_FOR = 2,  /* weight of a fault that a rule adds: the program waits for it */
};

const char *const hk_site_rule_names[HK_SITE_RULES] = {"none", "keep-warm", "purge-at-once"};

static uint32_t fates_seen(const struct hk_site_fates *fates) { return fates->soon + fates->late + fates->gone; }

static void forget_half(struct hk_site_fates *fates)
{
    fates->soon /= 2;
    fates->late /= 2;
    fates->gone /= 2;
    fates->late_ms /= 2;
}

void hk_site_note(struct hk_site_fates *fates, const struct hk_site_costs *costs, uint64_t idle_ms)
{
    if (idle_ms <= costs->delay_ms) {
        fates->soon++;
    } else if (idle_ms <= costs->worth_ms) {
        fates->late++;
        fates->late_ms += idle_ms;
    } else {
        fates->gone++;
    }
    if (fates_seen(fates) >= FADE_FROM)
        forget_half(fates);
}

/* Each late block is held longer, but not faulted in; each gone block is held until worth_ms in vain. */
static int64_t gain_of_keeping(const struct hk_site_fates *fates, const struct hk_site_costs *costs)
{
    int64_t worth = (int64_t)costs->worth_ms, delay = (int64_t)costs->delay_ms;
    int64_t longer = (int64_t)fates->late_ms - fates->late * delay;
    return fates->late * worth - longer - fates->gone * (worth - delay);
}

/* Each late or gone block is not held for the delay; each soon block is faulted in. */
static int64_t gain_of_purging(const struct hk_site_fates *fates, const struct hk_site_costs *costs)
{
    int64_t held = (int64_t)costs->delay_ms * (fates->late + fates->gone);
    return held - (int64_t)costs->worth_ms * fates->soon * WAITED_FOR;
}

int64_t hk_site_rule_gain(const struct hk_site_fates *fates, const struct hk_site_costs *costs, enum hk_site_rule rule)
{
    switch (rule) {
    case HK_SITE_KEEP_WARM: return gain_of_keeping(fates, costs);
    case HK_SITE_PURGE_AT_ONCE: return gain_of_purging(fates, costs);
    default: return 0;
    }
}

static bool clearly_pays(const struct hk_site_fates *fates, const struct hk_site_costs *costs, int64_t more)
{
    return fates_seen(fates) >= LEAST_FATES && more > (int64_t)(costs->worth_ms * fates_seen(fates) / CLEAR_PART);
}

enum hk_site_rule hk_site_rule_for(const struct hk_site_fates *fates, const struct hk_site_costs *costs,
                                   enum hk_site_rule now)
{
    enum hk_site_rule best = hk_site_rule_gain(fates, costs, now) < 0 ? HK_SITE_NO_RULE : now;
    for (enum hk_site_rule rule = HK_SITE_KEEP_WARM; rule < HK_SITE_RULES; rule++) {
        int64_t more = hk_site_rule_gain(fates, costs, rule) - hk_site_rule_gain(fates, costs, best);
        if (clearly_pays(fates, costs, more))
            best = rule;
    }
    return best;
}
