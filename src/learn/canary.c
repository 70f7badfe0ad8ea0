/* learn=canary: a new policy is on trial for some ticks. If it costs more than the previous policy did, it is reverted
 * and no trial starts for a while. */
#include <string.h>

#include "base/bits.h"
#include "learn/rules.h"
#include "os/os.h"

enum {
    TRIAL_TICKS = 16,
    REST_TICKS = 64, /* after a failed trial */
    TOLERATED = 5,   /* percent: noise */
    COST_FADE = 8,
    NS_PER_MISS = 200, /* a bin that ran empty or full */
    NS_PER_MAPPING = 4000,
    NS_PER_PAGE = 700, /* a page fault */
};

/* Cost in ns per second: bin misses, faults on reused memory that had been purged, and held memory, valued by
 * reuse_worth. */
static uint64_t trial_cost_of(const struct hk_learner *learner, const struct hk_signals *saw)
{
    uint64_t faulted = 0, elapsed = hk_max(1, HK_SAW(saw, elapsed));
    for (unsigned span = 0; span < HK_REUSE_SPANS; span++)
        if (hk_reuse_span_ms(span) > learner->now.value[HK_KNOB_purge_delay])
            faulted += saw->value[HK_SIGNAL_back_64ms + span];
    uint64_t pages_held = HK_SAW(saw, idle) / HK_PAGE * elapsed / learner->reuse_worth;
    uint64_t ns = (HK_SAW(saw, misses) + HK_SAW(saw, overflows)) * NS_PER_MISS +
                  HK_SAW(saw, large_mapped) * NS_PER_MAPPING + (faulted / HK_PAGE + pages_held) * NS_PER_PAGE;
    return ns * 1000 / elapsed;
}

/* The ceiling belongs to the goal; the cost does not reflect huge pages. */
static bool on_trial(struct hk_learner *learner)
{
    static const enum hk_knob never[] = {HK_KNOB_ceiling, HK_KNOB_huge_pages_from, HK_KNOB_huge_blocks_from};
    for (unsigned i = 0; i < sizeof never / sizeof never[0]; i++)
        learner->canary.kept.value[never[i]] = learner->target.value[never[i]];
    return memcmp(&learner->target, &learner->canary.kept, sizeof learner->target) != 0;
}

static void end_trial(struct hk_learner *learner, struct hk_step *step)
{
    struct hk_canary *canary = &learner->canary;
    uint64_t mean = canary->trial_cost / TRIAL_TICKS;
    bool worse = mean > canary->usual_cost + canary->usual_cost * TOLERATED / 100;
    hk_rule_note(step, worse ? HK_DECISION_canary_back : HK_DECISION_canary_kept, 0, 1, canary->usual_cost, mean,
                 TRIAL_TICKS);
    if (worse && on_trial(learner)) {
        learner->target = canary->kept;
        canary->rest = REST_TICKS;
    } else {
        canary->kept = learner->target;
        canary->usual_cost = mean;
    }
}

bool hk_canary_step(struct hk_learner *learner, const struct hk_signals *saw, struct hk_step *step)
{
    struct hk_canary *canary = &learner->canary;
    uint64_t cost = trial_cost_of(learner, saw);
    if (canary->trial > 0) {
        canary->trial_cost += cost;
        if (--canary->trial == 0)
            end_trial(learner, step);
        return false;
    }
    canary->usual_cost += canary->usual_cost == 0 ? cost : cost / COST_FADE - canary->usual_cost / COST_FADE;
    if (canary->rest > 0)
        canary->rest--;
    return canary->rest == 0;
}

void hk_canary_begin_trial(struct hk_learner *learner)
{
    struct hk_canary *canary = &learner->canary;
    if (!on_trial(learner))
        return;
    canary->trial = TRIAL_TICKS;
    canary->trial_cost = 0;
}
