/* Learner: computes the knobs for the next tick from the signals of a tick. It first recognizes the phase of the program (steady, burst, remote
 * heavy, short of memory). Rules then choose the best values of the knobs, and the phase bounds them. The learner uses no clock, no system call
 * and no global variable. Therefore a recorded trace of signals gives the same decisions as the recorded run.
 * Owns       All state of a learner is in its struct. docs/LEARNING.md describes the rules.
 * Invariant  Every knob stays in the range of its row in the table of knobs. A knob that no rule changes keeps the option's value.
 * Threads    Only one thread at a time may use a learner. */
#pragma once

#include "count/decisions.h"
#include "count/stats.h"
#include "policy/policy.h"

enum hk_signal {
#define HK_SIGNAL(name, unit, meaning) HK_SIGNAL_##name,
#include "learn/signals.def"
    HK_SIGNALS
};
_Static_assert(HK_SIGNAL_back_later - HK_SIGNAL_back_64ms + 1 == HK_REUSE_SPANS, "one signal per span of reuse");

struct hk_signals {
    uint64_t value[HK_SIGNALS];
};

#define HK_SAW(signals, name) ((signals)->value[HK_SIGNAL_##name])

enum { HK_DELAY_LAG = 16, HK_DECISIONS_A_TICK = 16, HK_CAPS = 2 };

/* These rules change knobs while memory is not short. A rule's option begins with learn_. A rule without a measured gain is off by default. */
enum hk_rule {
    HK_RULE_DELAY = 1,
    HK_RULE_CAPS = 2,
    HK_RULE_CROWD = 4,
    HK_RULE_HUGE = 8,
    HK_RULE_BURST = 16,
    HK_RULE_REMOTE = 32,
    HK_RULES_ALL = 63
};

struct hk_learner {
    struct hk_knobs option; /* the values of the options */
    struct hk_knobs target; /* the values that the rules choose, before the phase bounds them */
    struct hk_knobs now;    /* the published values */
    uint64_t reuse_worth;   /* the option reuse_worth, in ms */
    uint64_t mode, rules;   /* the option learn, and the rules that are on (enum hk_rule) */
    enum hk_phase state;
    bool goal_near;
    unsigned calm;                        /* ticks without a sign of the current phase */
    unsigned stalled_rest;                /* ticks until the last stall no longer counts */
    uint64_t back[HK_REUSE_SPANS], idled; /* recent bytes reused, by time span; recent bytes that became idle */
    uint64_t idled_of_late[HK_DELAY_LAG]; /* bytes that became idle in the last ticks, not yet in `idled` */
    unsigned tick;
    uint64_t share; /* bytes that a thread may cache; UINT64_MAX: not limited, because there are few threads */
    struct hk_cap_ticks {
        unsigned missed, unmissed;
    } cap_ticks[HK_CAPS]; /* for each cache, successive ticks in which it was too small, and in which it was not */
    unsigned blocks_rest; /* ticks until large blocks no longer get huge pages */
    struct hk_canary {
        struct hk_knobs kept;            /* the knobs before the trial */
        unsigned trial, rest;            /* ticks until the trial ends, and ticks until the next trial may begin */
        unsigned quiet;                  /* ticks since the last trial began */
        uint64_t usual_cost, trial_cost; /* ns per second; mean before the trial, and sum of the trial's ticks */
    } canary;
};

struct hk_step {
    struct hk_decision decisions[HK_DECISIONS_A_TICK];
    unsigned count;
};

HK_INLINE void hk_rule_note(struct hk_step *step, enum hk_decision_kind kind, uint64_t before, uint64_t after,
                            uint64_t a, uint64_t b, uint64_t c)
{
    if (step->count < HK_DECISIONS_A_TICK)
        step->decisions[step->count++] =
            (struct hk_decision){.kind = kind, .before = before, .after = after, .seen = {a, b, c}};
}

/* Returns true if `sign` was true in one of the last `ticks` ticks. *rest is the number of ticks until the last sign no longer counts. */
HK_INLINE bool hk_rule_lasts(bool sign, unsigned ticks, unsigned *rest)
{
    *rest = sign ? ticks : *rest - (*rest > 0);
    return *rest > 0;
}

void hk_learner_begin(struct hk_learner *learner, const struct hk_knobs *options, uint64_t reuse_worth, uint64_t mode,
                      uint64_t rules);
/* Sets learner->now to the new knobs, and step->decisions to the decisions that changed them. */
void hk_learner_step(struct hk_learner *learner, const struct hk_signals *signals, struct hk_step *step);

/* These functions write a decision as a line of JSON, and a tick's line of a trace. */
void hk_explain_decision(struct hk_text *text, const struct hk_decision *decision);
void hk_explain_signals(struct hk_text *text, uint64_t ms, const struct hk_signals *signals);

/* Goal: tells the learner how much memory the process should use at most, how much it uses, and how many CPUs it may use. HAKMEM_GOAL sets the goal
 * in bytes, or as a percentage of the available memory. If HAKMEM_GOAL is not set, the limit of the control group (v2 or v1), if any, is the goal.
 * Owns     goal.c reads the files of the control group. A program in a sandbox may be killed for opening a file. Therefore ticks read these files
 *          again only if HAKMEM_GOAL has an amount or HAKMEM_BACKGROUND is 1. No file stays open, because programs close unknown descriptors.
 * Threads  The first thread calls hk_goal_begin. The caller of the other functions is the first thread or holds the learner's lock. */

/* Reads the option HAKMEM_GOAL. Returns true if the option sets a goal. */
bool hk_goal_begin(void);
/* Reads the machine's memory and CPUs, and the limits of the control group. Returns true if there is a goal. */
bool hk_goal_find(void);
/* Fills in the signals goal, used, cpus and stalled. Without a goal, or if no file may be read, `used` is the footprint that the caller has set. */
void hk_goal_look(struct hk_signals *saw, uint64_t now_ms);
