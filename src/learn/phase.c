/* Recognizes the phase of the program from the signals of the last ticks. */
#include "learn/rules.h"

enum {
    CALM_TICKS = 3,
    SLABS_OF_A_BURST = 64,  /* more than 4 MiB per tick */
    GROWTH_OF_A_BURST = 16, /* divisor of the footprint */
    REMOTE_BLOCKS = 1000,
    REMOTE_PER_MISS = 8, /* a miss refills some 64 blocks: from this ratio on, remote frees matter */
    TIGHT_FROM = 14,     /* sixteenths of the goal */
    TIGHT_TO = 12,
    STALLED_PART = 10,  /* divisor of the time: tasks that stall for longer depend on others to return memory */
    STALLED_TICKS = 20, /* some 3 s after the last such tick */
};

static bool goal_is_near(struct hk_learner *learner, const struct hk_signals *saw)
{
    unsigned sixteenths = learner->goal_near ? TIGHT_TO : TIGHT_FROM;
    return learner->goal_near =
               HK_SAW(saw, goal) != 0 && HK_SAW(saw, used) / 16 >= HK_SAW(saw, goal) / 256 * sixteenths;
}

static bool tasks_stall(struct hk_learner *learner, const struct hk_signals *saw)
{
    bool stalled = HK_SAW(saw, elapsed) != 0 && HK_SAW(saw, stalled) / HK_SAW(saw, elapsed) >= 1000 / STALLED_PART;
    return hk_rule_lasts(stalled, STALLED_TICKS, &learner->stalled_rest);
}

static bool grows_fast(const struct hk_signals *saw)
{
    uint64_t made = HK_SAW(saw, slabs_made), released = HK_SAW(saw, slabs_released);
    return made > released + SLABS_OF_A_BURST &&
           (made - released) * 64 * HK_KIB > HK_SAW(saw, footprint) / GROWTH_OF_A_BURST;
}

static bool is_remote_heavy(const struct hk_signals *saw)
{
    return HK_SAW(saw, remote) >= REMOTE_BLOCKS && HK_SAW(saw, remote) > HK_SAW(saw, misses) * REMOTE_PER_MISS;
}

static enum hk_phase phase_now(struct hk_learner *learner, const struct hk_signals *saw)
{
    bool near = goal_is_near(learner, saw), stalls = tasks_stall(learner, saw);
    if (near || stalls)
        return HK_PHASE_TIGHT;
    if (grows_fast(saw))
        return HK_PHASE_BURST;
    return is_remote_heavy(saw) ? HK_PHASE_REMOTE : HK_PHASE_STEADY;
}

static void change_to(struct hk_learner *learner, enum hk_phase state, const struct hk_signals *saw,
                      struct hk_step *step)
{
    uint64_t before = learner->state;
    learner->state = state;
    learner->calm = 0;
    switch (state) {
    case HK_PHASE_BURST:
        hk_rule_note(step, HK_DECISION_state_burst, before, state, HK_SAW(saw, slabs_made), HK_SAW(saw, footprint),
                     HK_SAW(saw, misses));
        break;
    case HK_PHASE_REMOTE:
        hk_rule_note(step, HK_DECISION_state_remote, before, state, HK_SAW(saw, remote), HK_SAW(saw, misses),
                     HK_SAW(saw, threads));
        break;
    case HK_PHASE_TIGHT:
        hk_rule_note(step, HK_DECISION_state_tight, before, state, HK_SAW(saw, used), HK_SAW(saw, goal),
                     HK_SAW(saw, stalled));
        break;
    default:
        hk_rule_note(step, HK_DECISION_state_steady, before, state, HK_SAW(saw, misses), HK_SAW(saw, remote),
                     HK_SAW(saw, used));
        break;
    }
}

/* A phase begins with its first sign, and ends after some ticks without one. */
void hk_phase_step(struct hk_learner *learner, const struct hk_signals *saw, struct hk_step *step)
{
    enum hk_phase seen = phase_now(learner, saw);
    if (seen == learner->state)
        learner->calm = 0;
    else if (seen != HK_PHASE_STEADY || ++learner->calm >= CALM_TICKS)
        change_to(learner, seen, saw, step);
}
