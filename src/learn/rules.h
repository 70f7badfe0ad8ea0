/* Rules: what the learner's parts share: how a decision is noted, and what each part is asked. */
#ifndef HK_RULES_H
#define HK_RULES_H

#include "learn/learner.h"

HK_INLINE void hk_rule_note(struct hk_step *step, enum hk_decision_kind kind, uint64_t before, uint64_t after, uint64_t a, uint64_t b,
                            uint64_t c)
{
    if (step->count < HK_DECISIONS_A_TICK)
        step->decisions[step->count++] = (struct hk_decision){.kind = kind, .before = before, .after = after, .seen = {a, b, c}};
}

/* Whether there was a sign in one of the last so many ticks. */
HK_INLINE bool hk_rule_lasts(bool sign, unsigned ticks, unsigned *rest)
{
    *rest = sign ? ticks : *rest - (*rest > 0);
    return *rest > 0;
}

/* What kind of time it is. */
void hk_ace_step(struct hk_learner *learner, const struct hk_signals *signals, struct hk_step *step);
/* How long free memory is to stay warm. */
void hk_delay_remember(struct hk_learner *learner, const struct hk_signals *signals);
void hk_delay_step(struct hk_learner *learner, struct hk_step *step);
/* How much the caches may hold: a thread's, where there are many; that of big blocks. */
void hk_crowd_step(struct hk_learner *learner, const struct hk_signals *signals, struct hk_step *step);
void hk_big_cache_step(struct hk_learner *learner, const struct hk_signals *signals, struct hk_step *step);
/* From which size on big blocks are put on huge pages. */
void hk_huge_step(struct hk_learner *learner, const struct hk_signals *signals, struct hk_step *step);

/* Where a new policy is on trial: whether the rules may move knobs at this tick; and that they may have. */
bool hk_canary_step(struct hk_learner *learner, const struct hk_signals *signals, struct hk_step *step);
void hk_canary_begin_trial(struct hk_learner *learner);

#endif
