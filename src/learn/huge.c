/* Mapping many big blocks is cheaper with huge pages: one fault instead of 512. A huge page wastes memory if parts of
 * it stay untouched, so the rule lasts only as long as such work; while memory is short, the goal forbids it
 * (learner.c). */
#include "base/bits.h"
#include "learn/rules.h"

enum { LAST_TICKS = 400 }; /* a minute */
#define BLOCKS_FROM (1 * HK_MIB)
#define MUCH_FRESH (16 * HK_MIB) /* 4096 faults per tick: some hundredths of its time */

static bool maps_much(const struct hk_signals *saw)
{
    return HK_SAW(saw, big_fresh) / MUCH_FRESH >= hk_max(1, HK_SAW(saw, elapsed) / HK_TICK_MS);
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
                 HK_SAW(saw, big_fresh), HK_SAW(saw, big_mapped), HK_SAW(saw, elapsed));
    *now = wanted;
}
