/* Recognizes the phase from a tick's signals, runs the rules, and bounds the knobs if memory is short. Formats decisions and signals as lines. */
#include "learn/learner.h"
#include "base/bits.h"
#include "os/os.h"

/* `kind` is the decision that is logged when a phase begins. a, b and c are the signals that are logged with each decision about the phase. */
static const struct phase_row {
    enum hk_decision_kind kind;
    enum hk_signal a, b, c;
} phase_rows[HK_PHASES] = {
    [HK_PHASE_STEADY] = {HK_DECISION_state_steady, HK_SIGNAL_misses, HK_SIGNAL_remote, HK_SIGNAL_used},
    [HK_PHASE_BURST] = {HK_DECISION_state_burst, HK_SIGNAL_slabs_made, HK_SIGNAL_footprint, HK_SIGNAL_misses},
    [HK_PHASE_REMOTE] = {HK_DECISION_state_remote, HK_SIGNAL_remote, HK_SIGNAL_misses, HK_SIGNAL_threads},
    [HK_PHASE_TIGHT] = {HK_DECISION_state_tight, HK_SIGNAL_used, HK_SIGNAL_goal, HK_SIGNAL_stalled},
};

/* Each row gives a knob a lower or an upper bound during a phase. The decisions `begun` and `ended` are logged when a bound begins and ends. If a
 * knob of huge pages is 0, huge pages are never used, and the knob has no bound. */
#define BY_DEFAULT UINT64_MAX /* the bound is the default of the knob */
enum side { LEAST, MOST };
static const struct bound {
    enum hk_phase phase;
    enum hk_knob knob;
    enum side side;
    uint64_t value;
    enum hk_decision_kind begun, ended;
} phase_bounds[] = {
#define BOUND(phase, knob, side, value, begun, ended)                                                                  \
    HK_PHASE_##phase, HK_KNOB_##knob, side, value, HK_DECISION_##begun, HK_DECISION_##ended
    {BOUND(BURST, refill, LEAST, 100, refill_burst, refill_calm)},
    {BOUND(REMOTE, drain_slabs, LEAST, 64, drain_remote, drain_calm)},
    {BOUND(TIGHT, refill, MOST, 25, refill_tight, refill_eased)},
    {BOUND(TIGHT, hot_turns, LEAST, 16, hot_tight, hot_eased)},
    {BOUND(TIGHT, huge_pages_from, LEAST, BY_DEFAULT, huge_pages_tight, huge_pages_eased)},
    {BOUND(TIGHT, huge_blocks_from, LEAST, BY_DEFAULT, huge_blocks_tight, huge_blocks_eased)},
    {BOUND(TIGHT, large_fit, MOST, 125, fit_tight, fit_eased)},
    {BOUND(TIGHT, thread_cache, MOST, 1 * HK_MIB, caches_tight, caches_eased)},
    {BOUND(TIGHT, purge_delay, MOST, 128, delay_tight, delay_eased)},
    {BOUND(TIGHT, depot, MOST, 0, depot_tight, depot_eased)},
};

static void note_in_phase(struct hk_step *step, enum hk_decision_kind kind, uint64_t before, uint64_t after,
                          enum hk_phase phase, const struct hk_signals *saw)
{
    const struct phase_row *row = &phase_rows[phase];
    hk_rule_note(step, kind, before, after, saw->value[row->a], saw->value[row->b], saw->value[row->c]);
}

void hk_learner_begin(struct hk_learner *learner, const struct hk_knobs *options, uint64_t reuse_worth, uint64_t mode,
                      uint64_t rules)
{
    *learner = (struct hk_learner){.reuse_worth = reuse_worth, .mode = mode, .rules = rules, .share = UINT64_MAX};
    learner->option = learner->target = learner->now = learner->canary.kept = *options;
}

static void set_target(struct hk_learner *learner, enum hk_knob knob, uint64_t to, enum hk_decision_kind kind,
                       const uint64_t seen[3], struct hk_step *step)
{
    if (to == learner->target.value[knob])
        return;
    hk_rule_note(step, kind, learner->target.value[knob], to, seen[0], seen[1], seen[2]);
    learner->target.value[knob] = to;
}

enum {
    SPARED = 12,       /* divisor of the goal; this part stays unused, because the process grows between two ticks */
    UNKNOWN_PART = 24, /* divisor of the goal; UNKNOWN_BESIDE counts as at most this part */
    LEAST_CHANGE = 32  /* divisor of the goal; smaller changes of the ceiling are not published */
};

#define UNKNOWN_BESIDE (8 * HK_MIB) /* bytes; the estimate of the memory outside the heap if this memory is unknown */

/* Sets the ceiling of the heap so that the process uses at most the goal. Without a goal, the ceiling becomes that of the option. */
static void set_ceiling(struct hk_learner *learner, const struct hk_signals *saw, struct hk_step *step)
{
    uint64_t within = HK_SAW(saw, goal), used = HK_SAW(saw, used), footprint = HK_SAW(saw, footprint);
    uint64_t now = learner->target.value[HK_KNOB_ceiling], ceiling = learner->option.value[HK_KNOB_ceiling];
    uint64_t beside = used > footprint ? used - footprint : hk_min(UNKNOWN_BESIDE, within / UNKNOWN_PART);
    uint64_t room = within - within / SPARED;
    const struct hk_knob_row *row = &hk_knob_rows[HK_KNOB_ceiling];
    const uint64_t seen[3] = {used, within, HK_SAW(saw, idle)};
    if (within != 0)
        ceiling = hk_min(hk_max(room - hk_min(room, beside), row->min), row->max);
    if ((ceiling > now ? ceiling - now : now - ceiling) > within / LEAST_CHANGE)
        set_target(learner, HK_KNOB_ceiling, ceiling, HK_DECISION_ceiling_set, seen, step);
}

static bool is_bounding(const struct hk_learner *learner, enum hk_phase phase, enum hk_phase now)
{
    static const uint64_t rules[HK_PHASES] = {[HK_PHASE_BURST] = HK_RULE_BURST, [HK_PHASE_REMOTE] = HK_RULE_REMOTE};
    bool learns = learner->mode != HK_LEARN_FROZEN && (learner->rules & rules[phase]) != 0;
    return phase == now && (phase == HK_PHASE_TIGHT || learns);
}

/* Applies the bounds of the current phase to the knobs. Logs only the changes at the beginning and end of a phase. Rules log their own changes. */
static void apply_phase(struct hk_learner *learner, enum hk_phase last, const struct hk_signals *saw,
                        struct hk_step *step)
{
    struct hk_knobs before = learner->now;
    learner->now = learner->target;
    for (const struct bound *row = phase_bounds; row < phase_bounds + sizeof phase_bounds / sizeof phase_bounds[0];
         row++) {
        bool is = is_bounding(learner, row->phase, learner->state), was = is_bounding(learner, row->phase, last);
        uint64_t *now = &learner->now.value[row->knob], *old = &before.value[row->knob];
        uint64_t bound = row->value != BY_DEFAULT ? row->value : hk_knob_rows[row->knob].fallback;
        if (is && row->side == MOST)
            *now = hk_min(*now, bound);
        else if (is && (*now != 0 || row->value != BY_DEFAULT))
            *now = hk_max(*now, bound);
        if (is == was || *now == *old)
            continue;
        note_in_phase(step, is ? row->begun : row->ended, *old, *now, row->phase, saw);
        *old = *now;
    }
}

enum {
    CALM_TICKS = 3,
    SLABS_OF_A_BURST = 64,  /* a burst adds more slabs than this in a tick, over 4 MiB */
    GROWTH_OF_A_BURST = 16, /* divisor of the footprint; a burst adds more than this part in a tick */
    REMOTE_BLOCKS = 1000,
    REMOTE_PER_MISS = 8, /* remote frees per miss; fewer do not matter, because a miss refills some 64 blocks */
    TIGHT_FROM = 14,     /* sixteenths of the goal; memory is short from this use on, until the use is below TIGHT_TO */
    TIGHT_TO = 12,
    STALLED_PART = 10,  /* divisor of the time; if tasks wait for memory for this part of the time, memory is short */
    STALLED_TICKS = 20, /* ticks for which memory is short after such a wait, some 3 s */
};

static enum hk_phase phase_now(struct hk_learner *learner, const struct hk_signals *saw)
{
    uint64_t sixteenths = learner->goal_near ? TIGHT_TO : TIGHT_FROM, elapsed = HK_SAW(saw, elapsed);
    uint64_t made = HK_SAW(saw, slabs_made), released = HK_SAW(saw, slabs_released);
    bool stalled = elapsed != 0 && HK_SAW(saw, stalled) / elapsed >= 1000 / STALLED_PART;
    bool stalls = hk_rule_lasts(stalled, STALLED_TICKS, &learner->stalled_rest);
    learner->goal_near = HK_SAW(saw, goal) != 0 && HK_SAW(saw, used) / 16 >= HK_SAW(saw, goal) / 256 * sixteenths;
    if (learner->goal_near || stalls)
        return HK_PHASE_TIGHT;
    if (made > released + SLABS_OF_A_BURST &&
        (made - released) * 64 * HK_KIB > HK_SAW(saw, footprint) / GROWTH_OF_A_BURST)
        return HK_PHASE_BURST;
    bool remote = HK_SAW(saw, remote) >= REMOTE_BLOCKS && HK_SAW(saw, remote) > HK_SAW(saw, misses) * REMOTE_PER_MISS;
    return remote ? HK_PHASE_REMOTE : HK_PHASE_STEADY;
}

/* Finds the phase of the program. A phase begins at the first tick with its sign. The steady phase begins after CALM_TICKS ticks without any sign. */
static void find_phase(struct hk_learner *learner, const struct hk_signals *saw, struct hk_step *step)
{
    enum hk_phase seen = phase_now(learner, saw);
    if (seen == learner->state)
        learner->calm = 0;
    else if (seen != HK_PHASE_STEADY || ++learner->calm >= CALM_TICKS) {
        note_in_phase(step, phase_rows[seen].kind, learner->state, seen, seen, saw);
        learner->state = seen;
        learner->calm = 0;
    }
}

/* This rule sets purge_delay to the delay that would have cost least in the recent past. It chooses no delay above the option. It assumes that
 * holding a page for reuse_worth ms costs as much as a page fault, and counts each fault FAULT_WEIGHT times, because the program waits for it. The
 * signals sort reused memory by its idle time into time spans (count/stats.h). Spans before FIRST_SPAN are ignored, because every delay holds
 * their memory, and the large amount of this memory would hide the differences. */
enum {
    FADE = 32,       /* divisor; each tick forgets this part of the history, so that half is forgotten in some 3 s */
    LEAST_GAIN = 10, /* percent; the delay does not change for a smaller gain */
    LEAST_DELAY = 1, /* the shortest delay is the end of this time span, 128 ms, which is less than a tick */
    FIRST_SPAN = 2,
    FAULT_WEIGHT = 2,
};
#define LEAST_SEEN (4 * HK_MIB)

static void delay_remember(struct hk_learner *learner, const struct hk_signals *saw)
{
    uint64_t *late = &learner->idled_of_late[learner->tick % HK_DELAY_LAG];
    learner->idled += *late - learner->idled / FADE;
    *late = HK_SAW(saw, idled) - hk_min(HK_SAW(saw, idled), HK_SAW(saw, back_64ms) + HK_SAW(saw, back_128ms));
    for (unsigned span = 0; span < HK_REUSE_SPANS; span++)
        learner->back[span] += saw->value[HK_SIGNAL_back_64ms + span] - learner->back[span] / FADE;
}

static uint64_t bytes_back(const struct hk_learner *learner, uint64_t from_ms, uint64_t to_ms)
{
    uint64_t sum = 0;
    for (unsigned span = FIRST_SPAN; span < HK_REUSE_SPANS; span++)
        if (hk_reuse_span_ms(span) > from_ms && hk_reuse_span_ms(span) <= to_ms)
            sum += learner->back[span];
    return sum;
}

static uint64_t never_back(const struct hk_learner *learner)
{
    return learner->idled - hk_min(learner->idled, bytes_back(learner, 0, UINT64_MAX));
}

/* Returns what a purge delay would have cost in the recent past, in KiB times ms. */
static uint64_t cost_of(const struct hk_learner *learner, uint64_t delay)
{
    uint64_t cost = never_back(learner) / HK_KIB * delay;
    for (unsigned span = FIRST_SPAN; span < HK_REUSE_SPANS; span++) {
        uint64_t idle = hk_reuse_span_ms(span) * 3 / 4, fault = idle > delay ? learner->reuse_worth * FAULT_WEIGHT : 0;
        cost += learner->back[span] / HK_KIB * (hk_min(idle, delay) + fault);
    }
    return cost;
}

static void delay_step(struct hk_learner *learner, struct hk_step *step)
{
    uint64_t *now = &learner->target.value[HK_KNOB_purge_delay], best = *now, cost = cost_of(learner, *now);
    uint64_t option = learner->option.value[HK_KNOB_purge_delay];
    if (learner->idled < LEAST_SEEN)
        return;
    for (unsigned span = LEAST_DELAY; span < HK_REUSE_SPANS; span++) {
        uint64_t delay = span < HK_REUSE_SPANS - 1 ? hk_min(hk_reuse_span_ms(span), option) : option;
        if (cost_of(learner, delay) < cost_of(learner, best))
            best = delay;
    }
    uint64_t gain = cost != 0 ? (cost - cost_of(learner, best)) * 100 / cost : 0;
    if (best == *now || gain < LEAST_GAIN)
        return;
    bool longer = best > *now;
    uint64_t never = never_back(learner) + (longer ? 0 : bytes_back(learner, best, UINT64_MAX));
    hk_rule_note(step, longer ? HK_DECISION_delay_longer : HK_DECISION_delay_shorter, *now, best,
                 bytes_back(learner, longer ? *now : 0, best) / HK_KIB, never / HK_KIB, gain);
    *now = best;
}

#define LEAST_SHARE (128 * HK_KIB)
enum {
    HUNGRY_TICKS = 2,
    SATED_TICKS = 64, /* some 10 s */
    CROWD = 8,        /* threads per CPU */
};

static unsigned count_or_clear(bool sign, unsigned *ticks) { return *ticks = sign ? *ticks + 1 : 0; }

/* Limits the thread caches if there are more than CROWD threads per CPU, because most of these threads wait. All threads together may then cache only
 * as much as CROWD threads per CPU. A thread's share is rounded down to a power of two, so that the knob does not change with each new thread. */
static void crowd_step(struct hk_learner *learner, const struct hk_signals *saw, struct hk_step *step)
{
    uint64_t threads = HK_SAW(saw, threads), crowd = HK_SAW(saw, cpus) * CROWD, share = UINT64_MAX;
    uint64_t now = learner->target.value[HK_KNOB_thread_cache], option = learner->option.value[HK_KNOB_thread_cache];
    const uint64_t seen[3] = {threads, HK_SAW(saw, cpus), HK_SAW(saw, footprint)};
    if (threads > crowd)
        share = (uint64_t)1 << (63 - __builtin_clzll(hk_max(LEAST_SHARE, option / threads * crowd)));
    if (now > share)
        set_target(learner, HK_KNOB_thread_cache, share, HK_DECISION_caches_crowded, seen, step);
    else if (learner->share < share && now == learner->share)
        set_target(learner, HK_KNOB_thread_cache, hk_min(share, option), HK_DECISION_caches_uncrowded, seen, step);
    learner->share = share;
}

/* Each row is a cache whose size a knob limits. If the full cache has just given up memory that the program needs again, and if fewer percent of the
 * requests than the target are hits, the limit grows. `most` is its largest value, in multiples of the default. */
static const struct cap {
    enum hk_knob knob, target;
    enum hk_signal hits, misses, missed;
    enum hk_decision_kind more, less;
    unsigned most;
} caps[HK_CAPS] = {
    {HK_KNOB_large_cache, HK_KNOB_target_hit_large, HK_SIGNAL_large_reused, HK_SIGNAL_large_mapped,
     HK_SIGNAL_large_missed, HK_DECISION_large_cache_more, HK_DECISION_large_cache_less, 8},
    {HK_KNOB_depot, HK_KNOB_target_hit_mid, HK_SIGNAL_medium_reused, HK_SIGNAL_medium_refilled, HK_SIGNAL_depot_full,
     HK_DECISION_depot_more, HK_DECISION_depot_less, 32},
};

static void cap_step(struct hk_learner *learner, const struct cap *cap, const struct hk_signals *saw,
                     struct hk_step *step)
{
    uint64_t option = learner->option.value[cap->knob], now = learner->target.value[cap->knob];
    uint64_t fallback = hk_knob_rows[cap->knob].fallback; /* not the option, which may be a learned value */
    uint64_t reused = saw->value[cap->hits], calls = reused + saw->value[cap->misses], missed = saw->value[cap->missed];
    uint64_t hits = calls != 0 ? reused * 100 / calls : 100;
    const uint64_t seen[3] = {missed, hits, HK_SAW(saw, idle)};
    struct hk_cap_ticks *ticks = &learner->cap_ticks[cap - caps];
    if (count_or_clear(missed > 0 && hits < learner->option.value[cap->target], &ticks->missed) >= HUNGRY_TICKS) {
        set_target(learner, cap->knob, hk_min(now * 2, hk_max(option, fallback * cap->most)), cap->more, seen, step);
        ticks->missed = 0;
    }
    if (count_or_clear(missed == 0, &ticks->unmissed) >= SATED_TICKS) {
        set_target(learner, cap->knob, hk_max(now / 2, hk_min(option, fallback)), cap->less, seen, step);
        ticks->unmissed = 0;
    }
}

/* While the program maps many large blocks, this rule puts them on huge pages, because one page fault then replaces 512. The rule stops LAST_TICKS
 * after the last tick with many new blocks, because a huge page wastes memory if the program touches only a part of it. */
enum { LAST_TICKS = 400 }; /* one minute */
#define BLOCKS_FROM (1 * HK_MIB)
#define MUCH_FRESH (16 * HK_MIB) /* 4096 page faults in a tick, which take a few percent of its time */

static void huge_step(struct hk_learner *learner, const struct hk_signals *saw, struct hk_step *step)
{
    bool much = HK_SAW(saw, large_fresh) / MUCH_FRESH >= hk_max(1, HK_SAW(saw, elapsed) / HK_TICK_MS);
    bool maps = hk_rule_lasts(much, LAST_TICKS, &learner->blocks_rest);
    uint64_t option = learner->option.value[HK_KNOB_huge_blocks_from];
    const uint64_t seen[3] = {HK_SAW(saw, large_fresh), HK_SAW(saw, large_mapped), HK_SAW(saw, elapsed)};
    set_target(learner, HK_KNOB_huge_blocks_from, maps ? hk_min(option, BLOCKS_FROM) : option,
               maps ? HK_DECISION_huge_blocks_more : HK_DECISION_huge_blocks_less, seen, step);
}

/* With learn=canary, new values of knobs are on trial for TRIAL_TICKS. If they cost more than the old values, the learner restores the old values.
 * With learn=settle, it also freezes the knobs after SETTLED_TICKS without a trial, but not while huge_step() keeps its knob lowered. */
enum {
    TRIAL_TICKS = 16,
    REST_TICKS = 64, /* ticks after a failed trial in which no trial may begin */
    SETTLED_TICKS = 400,
    TOLERATED = 5, /* percent; a smaller increase of the cost counts as noise */
    COST_FADE = 8,
    NS_PER_MISS = 200, /* the cost of a bin that ran empty or full */
    NS_PER_MAPPING = 4000,
    NS_PER_PAGE = 700, /* the cost of a page fault */
};

/* Returns a tick's cost in ns per second: that of misses, new mappings, held memory, and page faults on memory that was purged and reused. */
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

/* Returns true if the rules have changed knobs since the last trial. Ignores the knobs that do not affect the cost of a trial. */
static bool on_trial(struct hk_learner *learner)
{
    static const enum hk_knob never[] = {HK_KNOB_ceiling, HK_KNOB_huge_pages_from, HK_KNOB_huge_blocks_from};
    for (unsigned i = 0; i < sizeof never / sizeof never[0]; i++)
        learner->canary.kept.value[never[i]] = learner->target.value[never[i]];
    return memcmp(&learner->target, &learner->canary.kept, sizeof learner->target) != 0;
}

/* Returns false during a trial, and for REST_TICKS after a failed one. At the last tick of a trial, decides whether the new values stay. */
static bool canary_permits(struct hk_learner *learner, const struct hk_signals *saw, struct hk_step *step)
{
    struct hk_canary *canary = &learner->canary;
    uint64_t cost = trial_cost_of(learner, saw), usual = canary->usual_cost;
    if (canary->trial == 0) {
        canary->usual_cost += usual == 0 ? cost : cost / COST_FADE - usual / COST_FADE;
        canary->rest -= canary->rest > 0;
        canary->trial_cost = 0;
        return canary->rest == 0;
    }
    canary->trial_cost += cost;
    if (--canary->trial > 0)
        return false;
    uint64_t mean = canary->trial_cost / TRIAL_TICKS;
    bool worse = mean > usual + usual * TOLERATED / 100;
    hk_rule_note(step, worse ? HK_DECISION_canary_back : HK_DECISION_canary_kept, 0, 1, usual, mean, TRIAL_TICKS);
    if (worse && on_trial(learner)) {
        learner->target = canary->kept;
        canary->rest = REST_TICKS;
    } else {
        canary->kept = learner->target;
        canary->usual_cost = mean;
    }
    return false;
}

static void freeze_if_settled(struct hk_learner *learner, struct hk_step *step)
{
    if (learner->mode != HK_LEARN_SETTLE || ++learner->canary.quiet < SETTLED_TICKS || learner->blocks_rest > 0)
        return;
    learner->mode = HK_LEARN_FROZEN;
    hk_rule_note(step, HK_DECISION_policy_frozen, 0, 1, SETTLED_TICKS, learner->canary.usual_cost, 0);
}

void hk_learner_step(struct hk_learner *learner, const struct hk_signals *saw, struct hk_step *step)
{
    enum hk_phase last = learner->state;
    bool canary = learner->mode == HK_LEARN_CANARY || learner->mode == HK_LEARN_SETTLE;
    step->count = 0;
    find_phase(learner, saw, step);
    delay_remember(learner, saw);
    bool may_move = learner->mode == HK_LEARN_ON || (canary && canary_permits(learner, saw, step));
    /* The rules do not run while memory is short, because apply_phase() then bounds most of their knobs. */
    uint64_t rules = may_move && last != HK_PHASE_TIGHT && learner->state != HK_PHASE_TIGHT ? learner->rules : 0;
    if (rules & HK_RULE_DELAY)
        delay_step(learner, step);
    if (rules & HK_RULE_CROWD)
        crowd_step(learner, saw, step);
    for (const struct cap *cap = caps; (rules & HK_RULE_CAPS) && cap < caps + HK_CAPS; cap++)
        cap_step(learner, cap, saw, step);
    if (rules & HK_RULE_HUGE)
        huge_step(learner, saw, step);
    if (may_move && canary && on_trial(learner)) {
        learner->canary.trial = TRIAL_TICKS;
        learner->canary.quiet = 0;
    }
    freeze_if_settled(learner, step);
    set_ceiling(learner, saw, step);
    apply_phase(learner, last, saw, step);
    learner->tick++;
}

void hk_explain_decision(struct hk_text *text, const struct hk_decision *decision)
{
    const struct hk_decision_row *row = &hk_decision_rows[decision->kind];
    bool is_state = decision->kind <= HK_DECISION_state_steady; /* the decisions about phases come first in the table */
    hk_text_add(text, "{\"ms\": %lu, \"who\": \"%s\"", decision->ms, row->who);
    if (decision->thread != 0)
        hk_text_add(text, ", \"thread\": %lu, \"class\": %lu", decision->thread, decision->size);
    hk_text_add(text, ", \"what\": \"%s\"", row->what);
    if (is_state)
        hk_text_add(text, ", \"old\": \"%s\", \"new\": \"%s\"", hk_phase_names[decision->before],
                    hk_phase_names[decision->after]);
    else
        hk_text_add(text, ", \"old\": %lu, \"new\": %lu", decision->before, decision->after);
    hk_text_add(text, ", \"unit\": \"%s\", \"seen\": {", row->unit);
    for (unsigned i = 0; i < 3 && row->seen[i][0] != 0; i++)
        hk_text_add(text, "%s\"%s\": %lu", i > 0 ? ", " : "", row->seen[i], decision->seen[i]);
    hk_text_add(text, "}, \"why\": \"%s\"}\n", row->why);
}

void hk_explain_signals(struct hk_text *text, uint64_t ms, const struct hk_signals *signals)
{
    hk_text_add(text, "tick %lu", ms);
    for (unsigned i = 0; i < HK_SIGNALS; i++)
        hk_text_add(text, " %lu", signals->value[i]);
    hk_text_add(text, "\n");
}
