/* Learner: a pure function from the signals of a tick to the policy of the next. No clock, no system call, no global: a recorded
 * trace of signals yields the same decisions.
 *
 *   signals --> phase (steady, burst, remote heavy, short of memory) --> delay, caps, huge (best value) --> goal (bounds) --> knobs
 *
 * Owns       nothing but its struct. The rules are in phase.c, delay.c and caps.c, and in docs/LEARNING.md.
 * Invariant  every knob stays in its row's range; a knob that no rule moves keeps the option's value.
 * Threads    one at a time. */
#ifndef HK_LEARNER_H
#define HK_LEARNER_H

#include "learn/rules.h"

void hk_learner_begin(struct hk_learner *learner, const struct hk_knobs *options, uint64_t reuse_worth, uint64_t mode,
                      uint64_t rules);
/* Afterwards learner->now holds the knobs; the step, why those that changed did. */
void hk_learner_step(struct hk_learner *learner, const struct hk_signals *signals, struct hk_step *step);

#endif
