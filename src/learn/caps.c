/* The learner rules that set capacities: of thread caches in a crowd, of the cache of large blocks, and of huge pages. */
#include "base/bits.h"
#include "learn/rules.h"

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
static uint64_t more_large_cache(const struct hk_learner *learner)
{
    const struct hk_knob_row *row = &hk_knob_rows[HK_KNOB_large_cache];
    uint64_t most = hk_max(learner->option.value[HK_KNOB_large_cache], row->fallback * LARGEST_LARGE_CACHE);
    return hk_min(learner->target.value[HK_KNOB_large_cache] * 2, most);
}

static uint64_t less_large_cache(const struct hk_learner *learner)
{
    uint64_t least = hk_min(learner->option.value[HK_KNOB_large_cache], hk_knob_rows[HK_KNOB_large_cache].fallback);
    return hk_max(learner->target.value[HK_KNOB_large_cache] / 2, least);
}

void hk_large_cache_step(struct hk_learner *learner, const struct hk_signals *saw, struct hk_step *step)
{
    uint64_t calls = HK_SAW(saw, large_reused) + HK_SAW(saw, large_mapped);
    uint64_t hits = calls != 0 ? HK_SAW(saw, large_reused) * 100 / calls : 100;
    bool missed = HK_SAW(saw, large_missed) > 0 && hits < TARGET_HITS;
    const uint64_t seen[3] = {HK_SAW(saw, large_missed), hits, HK_SAW(saw, idle)};
    if (count_or_clear(missed, &learner->missed) >= HUNGRY_TICKS) {
        set_target(learner, HK_KNOB_large_cache, more_large_cache(learner), HK_DECISION_large_cache_more, seen, step);
        learner->missed = 0;
    }
    if (count_or_clear(HK_SAW(saw, large_missed) == 0, &learner->unmissed) >= SATED_TICKS) {
        set_target(learner, HK_KNOB_large_cache, less_large_cache(learner), HK_DECISION_large_cache_less, seen, step);
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
    uint64_t option = learner->option.value[HK_KNOB_huge_blocks_from],
             *now = &learner->target.value[HK_KNOB_huge_blocks_from];
    uint64_t wanted = maps ? hk_min(option, BLOCKS_FROM) : option;
    if (wanted == *now)
        return;
    hk_rule_note(step, maps ? HK_DECISION_huge_blocks_more : HK_DECISION_huge_blocks_less, *now, wanted,
                 HK_SAW(saw, large_fresh), HK_SAW(saw, large_mapped), HK_SAW(saw, elapsed));
    *now = wanted;
}
