#include "base/bits.h"
#include "learn/rules.h"

#define LEAST_SHARE (128 * HK_KIB)
enum {
    HUNGRY_TICKS = 2,
    SATED_TICKS = 64,      /* some 10 s */
    CROWD = 8,             /* threads per CPU */
    LARGEST_BIG_CACHE = 8, /* times the default */
    TARGET_HITS = 55,      /* percent */
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

static uint64_t floor_to_power(uint64_t value) { return (uint64_t)1 << (63 - __builtin_clzll(value)); }

/* Many more threads than CPUs cannot all run: together they may cache as much as eight threads per CPU. Rounded to
 * powers of two, so that one thread more or less changes nothing. */
static uint64_t share_of_crowd(const struct hk_learner *learner, const struct hk_signals *saw)
{
    uint64_t crowd = HK_SAW(saw, cpus) * CROWD;
    if (HK_SAW(saw, threads) <= crowd)
        return UINT64_MAX;
    return floor_to_power(
        hk_max(LEAST_SHARE, learner->option.value[HK_KNOB_thread_cache] / HK_SAW(saw, threads) * crowd));
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

/* The option may hold a value learned in an earlier run: the row's default bounds it too. */
static uint64_t more_big_cache(const struct hk_learner *learner)
{
    const struct hk_knob_row *row = &hk_knob_rows[HK_KNOB_big_cache];
    uint64_t most = hk_max(learner->option.value[HK_KNOB_big_cache], row->fallback * LARGEST_BIG_CACHE);
    return hk_min(learner->target.value[HK_KNOB_big_cache] * 2, most);
}

static uint64_t less_big_cache(const struct hk_learner *learner)
{
    uint64_t least = hk_min(learner->option.value[HK_KNOB_big_cache], hk_knob_rows[HK_KNOB_big_cache].fallback);
    return hk_max(learner->target.value[HK_KNOB_big_cache] / 2, least);
}

void hk_big_cache_step(struct hk_learner *learner, const struct hk_signals *saw, struct hk_step *step)
{
    uint64_t calls = HK_SAW(saw, big_reused) + HK_SAW(saw, big_mapped);
    uint64_t hits = calls != 0 ? HK_SAW(saw, big_reused) * 100 / calls : 100;
    bool missed = HK_SAW(saw, big_missed) > 0 && hits < TARGET_HITS;
    const uint64_t seen[3] = {HK_SAW(saw, big_missed), hits, HK_SAW(saw, idle)};
    if (count_or_clear(missed, &learner->missed) >= HUNGRY_TICKS) {
        set_target(learner, HK_KNOB_big_cache, more_big_cache(learner), HK_DECISION_big_cache_more, seen, step);
        learner->missed = 0;
    }
    if (count_or_clear(HK_SAW(saw, big_missed) == 0, &learner->unmissed) >= SATED_TICKS) {
        set_target(learner, HK_KNOB_big_cache, less_big_cache(learner), HK_DECISION_big_cache_less, seen, step);
        learner->unmissed = 0;
    }
}
