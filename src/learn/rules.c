/* The learner rules that set how long idle memory is held, and capacities: of thread caches in a crowd, of the cache of large blocks, and of huge
 * pages. */
#include "base/bits.h"
#include "learn/learner.h"

/* Idle memory is reused or not. Holding a byte for reuse_worth is assumed to cost as much as faulting it in; the best delay is the one with the
 * least cost for the recent past. */
enum {
    FADE = 32,       /* divisor: the part forgotten per tick, half in some 3 s */
    LEAST_GAIN = 10, /* percent; for less, the delay stays */
    LEAST_DELAY = 1, /* the span of 128 ms, less than a tick */
    FIRST_SPAN =
        2, /* memory reused sooner is held by any delay: it carries no information, and dominates where many blocks come and go */
};
#define LEAST_SEEN (4 * HK_MIB)

void hk_delay_remember(struct hk_learner *learner, const struct hk_signals *saw)
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

/* The cost of a delay, in KiB times ms. */
static uint64_t cost_of(const struct hk_learner *learner, uint64_t delay)
{
    uint64_t cost = never_back(learner) / HK_KIB * delay;
    for (unsigned span = FIRST_SPAN; span < HK_REUSE_SPANS; span++) {
        uint64_t ms = hk_reuse_span_ms(span), fault = ms > delay ? learner->reuse_worth : 0;
        cost += learner->back[span] / HK_KIB * (hk_min(ms * 3 / 4, delay) + fault);
    }
    return cost;
}

void hk_delay_step(struct hk_learner *learner, struct hk_step *step)
{
    uint64_t *now = &learner->target.value[HK_KNOB_purge_delay], best = *now, cost = cost_of(learner, *now);
    if (*now == 0 || learner->idled < LEAST_SEEN)
        return;
    for (unsigned span = LEAST_DELAY; span < HK_REUSE_SPANS - 1; span++)
        if (cost_of(learner, hk_reuse_span_ms(span)) < cost_of(learner, best))
            best = hk_reuse_span_ms(span);
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
    SATED_TICKS = 64,        /* some 10 s */
    CROWD = 8,               /* threads per CPU */
    LARGEST_LARGE_CACHE = 8, /* times the default */
    TARGET_HITS = 55,        /* percent */
};

static unsigned count_or_clear(bool sign, unsigned *ticks) { return *ticks = sign ? *ticks + 1 : 0; }

static void set_target(struct hk_learner *learner, enum hk_knob knob, uint64_t to, enum hk_decision_kind kind,
                       const uint64_t seen[3], struct hk_step *step)
{
    if (to == learner->target.value[knob])
        return;
    hk_rule_note(step, kind, learner->target.value[knob], to, seen[0], seen[1], seen[2]);
    learner->target.value[knob] = to;
}

/* Many more threads than CPUs cannot all run: together they may cache as much as eight threads per CPU. Rounded to
 * powers of two, so that one thread more or less changes nothing. */
static uint64_t share_of_crowd(const struct hk_learner *learner, const struct hk_signals *saw)
{
    uint64_t crowd = HK_SAW(saw, cpus) * CROWD;
    if (HK_SAW(saw, threads) <= crowd)
        return UINT64_MAX;
    uint64_t all = learner->option.value[HK_KNOB_thread_cache] / HK_SAW(saw, threads) * crowd;
    return (uint64_t)1 << (63 - __builtin_clzll(hk_max(LEAST_SHARE, all)));
}

void hk_crowd_step(struct hk_learner *learner, const struct hk_signals *saw, struct hk_step *step)
{
    uint64_t share = share_of_crowd(learner, saw), now = learner->target.value[HK_KNOB_thread_cache];
    const uint64_t seen[3] = {HK_SAW(saw, threads), HK_SAW(saw, cpus), HK_SAW(saw, footprint)};
    if (now > share)
        set_target(learner, HK_KNOB_thread_cache, share, HK_DECISION_caches_crowded, seen, step);
    else if (learner->share < share && now == learner->share)
        set_target(learner, HK_KNOB_thread_cache, hk_min(share, learner->option.value[HK_KNOB_thread_cache]),
                   HK_DECISION_caches_uncrowded, seen, step);
    learner->share = share;
}

void hk_large_cache_step(struct hk_learner *learner, const struct hk_signals *saw, struct hk_step *step)
{
    uint64_t option = learner->option.value[HK_KNOB_large_cache], now = learner->target.value[HK_KNOB_large_cache];
    uint64_t fallback = hk_knob_rows[HK_KNOB_large_cache].fallback; /* bounds too: the option may have been learned */
    uint64_t calls = HK_SAW(saw, large_reused) + HK_SAW(saw, large_mapped);
    uint64_t hits = calls != 0 ? HK_SAW(saw, large_reused) * 100 / calls : 100;
    bool missed = HK_SAW(saw, large_missed) > 0 && hits < TARGET_HITS;
    const uint64_t seen[3] = {HK_SAW(saw, large_missed), hits, HK_SAW(saw, idle)};
    if (count_or_clear(missed, &learner->missed) >= HUNGRY_TICKS) {
        set_target(learner, HK_KNOB_large_cache, hk_min(now * 2, hk_max(option, fallback * LARGEST_LARGE_CACHE)),
                   HK_DECISION_large_cache_more, seen, step);
        learner->missed = 0;
    }
    if (count_or_clear(HK_SAW(saw, large_missed) == 0, &learner->unmissed) >= SATED_TICKS) {
        set_target(learner, HK_KNOB_large_cache, hk_max(now / 2, hk_min(option, fallback)),
                   HK_DECISION_large_cache_less, seen, step);
        learner->unmissed = 0;
    }
}

/* Mapping many large blocks is cheaper with huge pages: one fault instead of 512. A huge page wastes memory if parts of it stay untouched, so
 * the rule lasts only as long as such work; while memory is short, the goal forbids huge pages (learner.c). */
enum { LAST_TICKS = 400 }; /* a minute */
#define BLOCKS_FROM (1 * HK_MIB)
#define MUCH_FRESH (16 * HK_MIB) /* 4096 faults per tick: some hundredths of its time */

static bool maps_much(const struct hk_signals *saw)
{
    return HK_SAW(saw, large_fresh) / MUCH_FRESH >= hk_max(1, HK_SAW(saw, elapsed) / HK_TICK_MS);
}

void hk_huge_step(struct hk_learner *learner, const struct hk_signals *saw, struct hk_step *step)
{
    bool maps = hk_rule_lasts(maps_much(saw), LAST_TICKS, &learner->blocks_rest);
    uint64_t option = learner->option.value[HK_KNOB_huge_blocks_from];
    const uint64_t seen[3] = {HK_SAW(saw, large_fresh), HK_SAW(saw, large_mapped), HK_SAW(saw, elapsed)};
    set_target(learner, HK_KNOB_huge_blocks_from, maps ? hk_min(option, BLOCKS_FROM) : option,
               maps ? HK_DECISION_huge_blocks_more : HK_DECISION_huge_blocks_less, seen, step);
}
