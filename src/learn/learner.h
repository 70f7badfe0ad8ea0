/* Learner: from what a tick saw to the policy of the next: a pure function. No clock, no system call, no global: a recorded trace of
 * signals gives the same decisions.
 *
 *   signals --> ace (what kind of time is it?) --> delay, caps, huge (what would be best?) --> goal (what may it cost?) --> knobs
 *
 * Owns       nothing but its struct. The rules are in phase.c, delay.c, caps.c and huge.c, and in docs/LEARNING.md.
 * Invariant  every knob stays in its row's range; one that no rule moves keeps the option's value.
 * Threads    one at a time. */
#ifndef HK_LEARNER_H
#define HK_LEARNER_H

#include "learn/rules.h"

void hk_learner_begin(struct hk_learner *learner, const struct hk_knobs *options, uint64_t reuse_worth, uint64_t mode,
                      uint64_t rules);
/* Afterwards learner->now holds the knobs; the step, why those that changed did. */
void hk_learner_step(struct hk_learner *learner, const struct hk_signals *signals, struct hk_step *step);

#endif
