/* Runs the learner's rules on the signals of one tick, and sets the ceiling and the bounds of knobs that the memory goal requires. */
#include "learn/learner.h"

#include <string.h>

#include "base/bits.h"
#include "learn/rules.h"

/* The bound of a knob while memory is short, and the decision to log; for huge pages, the default as a lower bound. */
#define NO_LESS_THAN_BY_DEFAULT UINT64_MAX
static const struct tight {
    enum hk_knob knob;
    uint64_t most;
    enum hk_decision_kind tight, eased;
} tights[] = {
    {HK_KNOB_huge_pages_from, NO_LESS_THAN_BY_DEFAULT, HK_DECISION_huge_pages_tight, HK_DECISION_huge_pages_eased},
    {HK_KNOB_huge_blocks_from, NO_LESS_THAN_BY_DEFAULT, HK_DECISION_huge_blocks_tight, HK_DECISION_huge_blocks_eased},
    {HK_KNOB_large_fit, 125, HK_DECISION_fit_tight, HK_DECISION_fit_eased},
    {HK_KNOB_thread_cache, 1 * HK_MIB, HK_DECISION_caches_tight, HK_DECISION_caches_eased},
    {HK_KNOB_purge_delay, 128, HK_DECISION_delay_tight, HK_DECISION_delay_eased},
    {HK_KNOB_depot, 0, HK_DECISION_depot_tight, HK_DECISION_depot_eased},
};

void hk_learner_begin(struct hk_learner *learner, const struct hk_knobs *options, uint64_t reuse_worth, uint64_t mode,
                      uint64_t rules)
{
    memset(learner, 0, sizeof *learner);
    learner->option = learner->target = learner->now = learner->canary.kept = *options;
    learner->reuse_worth = reuse_worth;
    learner->mode = mode;
    learner->rules = rules;
    learner->share = UINT64_MAX;
}

enum {
    SPARED = 12,       /* divisor of the goal: room for growth between two readings */
    UNKNOWN_PART = 24, /* divisor: upper bound of the memory outside the heap, if unreadable */
    LEAST_CHANGE = 32  /* divisor: smaller changes publish no policy */
};

#define UNKNOWN_BESIDE (8 * HK_MIB) /* code, stacks, page tables */

static uint64_t beside_heap(const struct hk_signals *saw)
{
    if (HK_SAW(saw, used) > HK_SAW(saw, footprint))
        return HK_SAW(saw, used) - HK_SAW(saw, footprint);
    return hk_min(UNKNOWN_BESIDE, HK_SAW(saw, goal) / UNKNOWN_PART);
}

/* If there is a goal: bounds the heap so that the process stays within it. */
static void set_ceiling(struct hk_learner *learner, const struct hk_signals *saw, struct hk_step *step)
{
    uint64_t within = HK_SAW(saw, goal), now = learner->target.value[HK_KNOB_ceiling];
    uint64_t beside = beside_heap(saw);
    uint64_t room = within - within / SPARED;
    const struct hk_knob_row *row = &hk_knob_rows[HK_KNOB_ceiling];
    uint64_t ceiling = hk_min(hk_max(room - hk_min(room, beside), row->min), row->max);
    if (within == 0)
        ceiling = learner->option.value[HK_KNOB_ceiling];
    uint64_t change = ceiling > now ? ceiling - now : now - ceiling;
    if (change <= within / LEAST_CHANGE)
        return;
    hk_rule_note(step, HK_DECISION_ceiling_set, now, ceiling, HK_SAW(saw, used), within, HK_SAW(saw, idle));
    learner->target.value[HK_KNOB_ceiling] = ceiling;
}

static uint64_t tightened(const struct tight *row, uint64_t value)
{
    if (row->most != NO_LESS_THAN_BY_DEFAULT)
        return hk_min(value, row->most);
    return value == 0 ? 0 : hk_max(value, hk_knob_rows[row->knob].fallback);
}

/* The goal logs only the changes made by entering or leaving the state; the rules log their own. */
static void apply_goal(struct hk_learner *learner, bool was_tight, const struct hk_signals *saw, struct hk_step *step)
{
    bool tight = learner->state == HK_PHASE_TIGHT;
    struct hk_knobs before = learner->now;
    learner->now = learner->target;
    for (const struct tight *row = tights; row < tights + sizeof tights / sizeof tights[0]; row++) {
        uint64_t *now = &learner->now.value[row->knob];
        if (tight)
            *now = tightened(row, *now);
        if (tight != was_tight && *now != before.value[row->knob])
            hk_rule_note(step, tight ? row->tight : row->eased, before.value[row->knob], *now, HK_SAW(saw, used),
                         HK_SAW(saw, goal), HK_SAW(saw, idle));
    }
}

static void follow_rules(struct hk_learner *learner, const struct hk_signals *saw, struct hk_step *step)
{
    if (learner->rules & HK_RULE_DELAY)
        hk_delay_step(learner, step);
    if (learner->rules & HK_RULE_CROWD)
        hk_crowd_step(learner, saw, step);
    if (learner->rules & HK_RULE_LARGE_CACHE)
        hk_large_cache_step(learner, saw, step);
    if (learner->rules & HK_RULE_HUGE)
        hk_huge_step(learner, saw, step);
}

void hk_learner_step(struct hk_learner *learner, const struct hk_signals *saw, struct hk_step *step)
{
    bool was_tight = learner->state == HK_PHASE_TIGHT;
    step->count = 0;
    hk_phase_step(learner, saw, step);
    hk_delay_remember(learner, saw);
    bool short_of_memory =
        was_tight || learner->state == HK_PHASE_TIGHT; /* a rule's change would not take effect now */
    bool may_move =
        learner->mode == HK_LEARN_ON || (learner->mode == HK_LEARN_CANARY && hk_canary_step(learner, saw, step));
    if (may_move && !short_of_memory)
        follow_rules(learner, saw, step);
    if (may_move && learner->mode == HK_LEARN_CANARY)
        hk_canary_begin_trial(learner);
    set_ceiling(learner, saw, step);
    apply_goal(learner, was_tight, saw, step);
    learner->tick++;
}
