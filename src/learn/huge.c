/* What is mapped in bulk is cheaper by the huge page: one fault for 512. It costs memory where a page of it stays untouched, so it is
 * for as long as there is such work, and not while memory is short. */
#include "base/bits.h"
#include "learn/rules.h"

enum { LAST_TICKS = 400 }; /* a minute */
#define HUGE_PAGE (2 * HK_MIB)
#define BLOCKS_FROM (1 * HK_MIB)
#define MUCH_FRESH (16 * HK_MIB) /* 4096 faults in a tick: some hundredths of its time */

static void follow(struct hk_learner *learner, enum hk_knob knob, unsigned rest, uint64_t low, enum hk_decision_kind lower,
                   enum hk_decision_kind back, const uint64_t seen[3], struct hk_step *step)
{
    bool lowered = rest > 0 && learner->state != HK_STATE_TIGHT;
    uint64_t option = learner->option.value[knob], *now = &learner->wish.value[knob];
    uint64_t wanted = lowered ? hk_min(option, low) : option;
    if (wanted == *now)
        return;
    hk_rule_note(step, lowered ? lower : back, *now, wanted, seen[0], seen[1], seen[2]);
    *now = wanted;
}

static void begin_or_go_on(bool sign, unsigned *rest) { *rest = sign ? LAST_TICKS : *rest - (*rest > 0); }

void hk_huge_step(struct hk_learner *learner, const struct hk_signals *saw, struct hk_step *step)
{
    begin_or_go_on(learner->state == HK_STATE_BURST, &learner->burst_rest);
    begin_or_go_on(HK_SAW(saw, big_fresh) >= MUCH_FRESH, &learner->blocks_rest);
    const uint64_t burst[3] = {HK_SAW(saw, slabs_made), HK_SAW(saw, warm), HK_SAW(saw, goal)};
    const uint64_t blocks[3] = {HK_SAW(saw, big_fresh), HK_SAW(saw, big_mapped), HK_SAW(saw, goal)};
    follow(learner, HK_KNOB_huge_pages_from, learner->burst_rest, HUGE_PAGE, HK_DECISION_huge_in_bursts, HK_DECISION_huge_no_bursts,
           burst, step);
    follow(learner, HK_KNOB_huge_blocks_from, learner->blocks_rest, BLOCKS_FROM, HK_DECISION_huge_blocks_more,
           HK_DECISION_huge_blocks_less, blocks, step);
}
