/* What is mapped in bulk is cheaper by the huge page: one fault for 512. It costs memory where a page of it stays untouched, so it is
 * for as long as there is such work; while memory is short, the goal forbids it (learner.c). */
#include "base/bits.h"
#include "learn/rules.h"

enum { LAST_TICKS = 400 }; /* a minute */
#define HUGE_PAGE (2 * HK_MIB)
#define BLOCKS_FROM (1 * HK_MIB)
#define MUCH_FRESH (16 * HK_MIB) /* 4096 faults in a tick: some hundredths of its time */

static void follow(struct hk_learner *learner, enum hk_knob knob, bool lowered, uint64_t low, enum hk_decision_kind lower,
                   enum hk_decision_kind back, const uint64_t seen[3], struct hk_step *step)
{
    uint64_t option = learner->option.value[knob], *now = &learner->wish.value[knob];
    uint64_t wanted = lowered ? hk_min(option, low) : option;
    if (wanted == *now)
        return;
    hk_rule_note(step, lowered ? lower : back, *now, wanted, seen[0], seen[1], seen[2]);
    *now = wanted;
}

static bool maps_much(const struct hk_signals *saw)
{
    return HK_SAW(saw, big_fresh) / MUCH_FRESH >= hk_max(1, HK_SAW(saw, elapsed) / HK_LEARNER_TICK_MS);
}

void hk_huge_step(struct hk_learner *learner, const struct hk_signals *saw, struct hk_step *step)
{
    bool bursts = hk_rule_lasts(learner->state == HK_STATE_BURST, LAST_TICKS, &learner->burst_rest);
    bool maps = hk_rule_lasts(maps_much(saw), LAST_TICKS, &learner->blocks_rest);
    const uint64_t of_burst[3] = {HK_SAW(saw, slabs_made), HK_SAW(saw, slabs_released), HK_SAW(saw, warm)};
    const uint64_t of_blocks[3] = {HK_SAW(saw, big_fresh), HK_SAW(saw, big_mapped), HK_SAW(saw, elapsed)};
    follow(learner, HK_KNOB_huge_pages_from, bursts, HUGE_PAGE, HK_DECISION_huge_in_bursts, HK_DECISION_huge_no_bursts, of_burst, step);
    follow(learner, HK_KNOB_huge_blocks_from, maps, BLOCKS_FROM, HK_DECISION_huge_blocks_more, HK_DECISION_huge_blocks_less, of_blocks,
           step);
}
