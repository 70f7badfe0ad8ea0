/* Learner: from what a tick saw to the policy of the next: a pure function. No clock, no system call, no global: a recorded trace of
 * signals gives the same decisions.
 *
 *   signals --> ace (what kind of time is it?) --> delay, caps, huge (what would be best?) --> goal (what may it cost?) --> knobs
 *
 * Owns       nothing but its struct. The rules are in ace.c, delay.c, caps.c and huge.c, and in docs/LEARNING.md.
 * Invariant  every knob stays in its row's range; one that no rule moves keeps the option's value.
 * Threads    one at a time. */
#ifndef HK_LEARNER_H
#define HK_LEARNER_H

#include "count/decisions.h"
#include "learn/signals.h"
#include "policy/policy.h"

enum { HK_LEARNER_TICK_MS = 150, HK_DELAY_LAG = 16, HK_DECISIONS_A_TICK = 16 };

/* The rules that move knobs while memory is not short: each has an option, learn_... Off as HAKMEM comes is what has no measured gain. */
enum hk_rule { HK_RULE_DELAY = 1, HK_RULE_BIG_CACHE = 2, HK_RULE_CROWD = 4, HK_RULE_HUGE = 8, HK_RULES_ALL = 15 };

struct hk_canary {
    struct hk_knobs kept; /* what to go back to */
    unsigned trial, rest; /* ticks left */
    uint64_t usual_cost, trial_cost; /* ns a second: the faded mean; the sum */
};

struct hk_learner {
    struct hk_knobs option; /* what the user asked for, or the default */
    struct hk_knobs wish;   /* what the rules would have, were there no goal */
    struct hk_knobs now;    /* what is published */
    uint64_t reuse_worth;   /* ms (options.def) */
    uint64_t mode;          /* the option learn */
    uint64_t rules;         /* that are on (enum hk_rule) */
    enum hk_state state;
    unsigned calm; /* ticks without a sign of the state that it is in */
    bool goal_near;
    unsigned stalled_rest; /* ticks that stalls still count */
    /* of the delay: bytes, faded by a part each tick */
    uint64_t back[HK_REUSE_SPANS], idled;
    uint64_t idled_of_late[HK_DELAY_LAG]; /* what may still be wanted again */
    unsigned tick;
    /* of the caps */
    uint64_t share; /* of a thread in a crowd; UINT64_MAX where there is none */
    unsigned missed, unmissed; /* ticks in a row */
    unsigned blocks_rest; /* ticks that big blocks are still put on huge pages for */
    struct hk_canary canary;
};

struct hk_step {
    struct hk_decision decisions[HK_DECISIONS_A_TICK];
    unsigned count;
};

void hk_learner_begin(struct hk_learner *learner, const struct hk_knobs *options, uint64_t reuse_worth, uint64_t mode,
                      uint64_t rules);
/* Afterwards learner->now holds the knobs; the step, why those that changed did. */
void hk_learner_step(struct hk_learner *learner, const struct hk_signals *signals, struct hk_step *step);

#endif
