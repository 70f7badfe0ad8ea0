/* Idle memory is reused or not. Holding a byte for reuse_worth is assumed to cost as much as faulting it in; the best
 * delay is the one with the least cost for the recent past. */
#include "base/bits.h"
#include "learn/rules.h"

enum {
    FADE = 32,       /* divisor: the part forgotten per tick, half in some 3 s */
    LEAST_GAIN = 10, /* percent; for less, the delay stays */
    DELAY_STEPS = HK_REUSE_SPANS - 1,
    LEAST_DELAY = 128, /* ms: less than a tick */
};
#define LEAST_SEEN (4 * HK_MIB)

/* Memory reused within the shortest delay is held by any delay: it carries no information, and dominates where many
 * blocks come and go. */
static bool is_uninformative(unsigned span) { return hk_reuse_span_ms(span) <= LEAST_DELAY; }

static uint64_t idled_for_longer(const struct hk_signals *saw)
{
    uint64_t soon = 0;
    for (unsigned span = 0; is_uninformative(span); span++)
        soon += saw->value[HK_SIGNAL_back_64ms + span];
    return HK_SAW(saw, idled) - hk_min(HK_SAW(saw, idled), soon);
}

void hk_delay_remember(struct hk_learner *learner, const struct hk_signals *saw)
{
    uint64_t *late = &learner->idled_of_late[learner->tick % HK_DELAY_LAG];
    learner->idled += *late - learner->idled / FADE;
    *late = idled_for_longer(saw);
    for (unsigned span = 0; span < HK_REUSE_SPANS; span++)
        learner->back[span] += saw->value[HK_SIGNAL_back_64ms + span] - learner->back[span] / FADE;
}

static uint64_t bytes_back(const struct hk_learner *learner, uint64_t from_ms, uint64_t to_ms)
{
    uint64_t sum = 0;
    for (unsigned span = 0; span < HK_REUSE_SPANS; span++)
        if (!is_uninformative(span) && hk_reuse_span_ms(span) > from_ms && hk_reuse_span_ms(span) <= to_ms)
            sum += learner->back[span];
    return sum;
}

static uint64_t never_back(const struct hk_learner *learner)
{
    uint64_t back = bytes_back(learner, 0, UINT64_MAX);
    return learner->idled - hk_min(learner->idled, back);
}

/* Returns the cost of a delay, in KiB times ms. */
static uint64_t cost_of(const struct hk_learner *learner, uint64_t delay)
{
    uint64_t fault = learner->reuse_worth;
    uint64_t cost = never_back(learner) / HK_KIB * delay;
    for (unsigned span = 0; span < HK_REUSE_SPANS; span++) {
        if (is_uninformative(span))
            continue;
        uint64_t held = hk_min(hk_reuse_span_ms(span) * 3 / 4, delay);
        cost += learner->back[span] / HK_KIB * (held + (hk_reuse_span_ms(span) > delay ? fault : 0));
    }
    return cost;
}

static uint64_t best_delay(const struct hk_learner *learner, uint64_t now)
{
    uint64_t best = now;
    for (unsigned step = 0; step < DELAY_STEPS; step++) {
        uint64_t delay = hk_reuse_span_ms(step);
        if (delay >= LEAST_DELAY && cost_of(learner, delay) < cost_of(learner, best))
            best = delay;
    }
    return best;
}

static void decide(struct hk_learner *learner, uint64_t delay, uint64_t gain, struct hk_step *step)
{
    uint64_t *now = &learner->target.value[HK_KNOB_purge_delay];
    if (delay > *now)
        hk_rule_note(step, HK_DECISION_delay_longer, *now, delay, bytes_back(learner, *now, delay) / HK_KIB,
                     never_back(learner) / HK_KIB, gain);
    else
        hk_rule_note(step, HK_DECISION_delay_shorter, *now, delay, bytes_back(learner, 0, delay) / HK_KIB,
                     (bytes_back(learner, delay, UINT64_MAX) + never_back(learner)) / HK_KIB, gain);
    *now = delay;
}

void hk_delay_step(struct hk_learner *learner, struct hk_step *step)
{
    uint64_t now = learner->target.value[HK_KNOB_purge_delay];
    if (now == 0 || learner->idled < LEAST_SEEN)
        return;
    uint64_t best = best_delay(learner, now), cost = cost_of(learner, now);
    uint64_t gain = cost != 0 ? (cost - cost_of(learner, best)) * 100 / cost : 0;
    if (best != now && gain >= LEAST_GAIN)
        decide(learner, best, gain, step);
}
