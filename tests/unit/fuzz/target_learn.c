/* Tests the learner and the rules of call sites. Equal signals must lead to equal policies, and each knob must stay within its bounds. */
#include "base/bits.h"
#include "count/stats.h"
#include "unit/fuzz/fuzz.h"
#include "learn/learner.h"
#include "prof/sites.h"

static void draw_signals(struct fuzz_input *in, struct hk_signals *saw)
{
    uint8_t which = fuzz_byte(in);
    memset(saw, 0, sizeof *saw);
    HK_SAW(saw, elapsed) = 150 + fuzz_byte(in) % 8u * 100;
    HK_SAW(saw, cpus) = 1 + which % 8u;
    HK_SAW(saw, threads) = 1u + fuzz_byte(in);
    for (unsigned i = 0; i < which % 16u; i++)
        saw->value[fuzz_below(in, HK_SIGNALS)] = fuzz_word(in) >> fuzz_byte(in) % 40;
    HK_SAW(saw, elapsed) = hk_max(HK_SAW(saw, elapsed), 1);
}

static void check_bounds(const struct hk_learner *learner, const struct hk_signals *saw, const struct hk_step *step)
{
    for (unsigned knob = 0; knob < HK_KNOBS; knob++) {
        uint64_t value = learner->now.value[knob];
        FUZZ_CHECK(value >= hk_knob_rows[knob].min && value <= hk_knob_rows[knob].max, "(%s: %lu)",
                   hk_knob_rows[knob].name, (unsigned long)value);
        bool moves = learner->mode == HK_LEARN_ON || learner->mode == HK_LEARN_CANARY;
        FUZZ_CHECK(moves || knob == HK_KNOB_ceiling || learner->target.value[knob] == learner->option.value[knob],
                   "(%s)", hk_knob_rows[knob].name);
    }
    FUZZ_CHECK(step->count <= HK_DECISIONS_A_TICK && learner->state < HK_PHASES);
    for (unsigned i = 0; i < step->count; i++)
        FUZZ_CHECK(step->decisions[i].kind < HK_DECISION_KINDS &&
                       (step->decisions[i].kind <= HK_DECISION_state_steady ||
                        step->decisions[i].before != step->decisions[i].after),
                   "(%s of %s)", hk_decision_rows[step->decisions[i].kind].what,
                   hk_decision_rows[step->decisions[i].kind].who);
    if (learner->state == HK_PHASE_TIGHT)
        FUZZ_CHECK(learner->now.value[HK_KNOB_large_fit] <= 125 && learner->now.value[HK_KNOB_depot] == 0 &&
                   learner->now.value[HK_KNOB_purge_delay] <= 128 &&
                   learner->now.value[HK_KNOB_thread_cache] <= HK_MIB);
    if (HK_SAW(saw, goal) == 0)
        FUZZ_CHECK(learner->now.value[HK_KNOB_ceiling] == learner->option.value[HK_KNOB_ceiling]);
}

void fuzz_learner(struct fuzz_input *in)
{
    static struct hk_learner learner, again;
    struct hk_knobs options;
    for (unsigned knob = 0; knob < HK_KNOBS; knob++) {
        const struct hk_knob_row *row = &hk_knob_rows[knob];
        options.value[knob] =
            fuzz_byte(in) % 2 == 0 ? row->fallback : row->min + fuzz_word(in) % (row->max - row->min + 1);
    }
    uint64_t worth = 1 + fuzz_bytes(in, 3) % 3600000, mode = fuzz_below(in, 4),
             rules = fuzz_below(in, HK_RULES_ALL + 1);
    hk_learner_begin(&learner, &options, worth, mode, rules);
    hk_learner_begin(&again, &options, worth, mode, rules);
    while (fuzz_next(in)) {
        struct hk_step step = {.count = 0}, same = {.count = 0};
        struct hk_signals saw;
        draw_signals(in, &saw);
        for (unsigned ticks = 1 + fuzz_byte(in) % 12u; ticks > 0; ticks--, in->operations++) {
            hk_learner_step(&learner, &saw, &step);
            hk_learner_step(&again, &saw, &same);
            check_bounds(&learner, &saw, &step);
            FUZZ_CHECK(memcmp(&learner, &again, sizeof learner) == 0 && step.count == same.count);
        }
    }
}

/* Returns how much a rule saves, by its definition, in the milliseconds for which one block could be held at that cost. */
static __int128 model_gain(const struct hk_site_fates *fates, const struct hk_site_costs *costs, enum hk_site_rule rule)
{
    __int128 worth = (__int128)costs->worth_ms, delay = (__int128)costs->delay_ms, soon = fates->soon,
             late = fates->late, gone = fates->gone;
    if (rule == HK_SITE_KEEP_WARM)
        return late * worth - ((__int128)fates->late_ms - late * delay) - gone * (worth - delay);
    return rule == HK_SITE_PURGE_AT_ONCE ? delay * (late + gone) - 2 * worth * soon : 0;
}

/* Notes which of the three fates a block had. If there are many notes, half of them are forgotten. */
static void model_note(struct hk_site_fates *model, const struct hk_site_costs *costs, uint64_t idle)
{
    bool soon = idle <= costs->delay_ms, late = !soon && idle <= costs->worth_ms;
    model->soon += soon;
    model->late += late;
    model->late_ms += late ? idle : 0;
    model->gone += !soon && !late;
    if (model->soon + model->late + model->gone == 32)
        *model = (struct hk_site_fates){model->soon / 2, model->late / 2, model->gone / 2, model->late_ms / 2};
}

void fuzz_site_rules(struct fuzz_input *in)
{
    struct hk_site_costs costs = {fuzz_bytes(in, 3) % 3600001, 1 + fuzz_bytes(in, 3) % 3600000};
    struct hk_site_fates fates = {0, 0, 0, 0}, model = {0, 0, 0, 0};
    enum hk_site_rule rule = HK_SITE_NO_RULE;
    while (fuzz_next(in)) {
        uint64_t idle = fuzz_byte(in) % 4 == 0 ? costs.delay_ms + fuzz_byte(in) - 1 : fuzz_bytes(in, 3);
        hk_site_note(&fates, &costs, idle);
        model_note(&model, &costs, idle);
        FUZZ_CHECK(fates.soon == model.soon && fates.late == model.late && fates.gone == model.gone &&
                   fates.late_ms == model.late_ms);
        enum hk_site_rule next = hk_site_rule_for(&fates, &costs, rule);
        for (enum hk_site_rule each = HK_SITE_NO_RULE; each < HK_SITE_RULES; each++)
            FUZZ_CHECK(hk_site_rule_gain(&fates, &costs, each) == (int64_t)model_gain(&fates, &costs, each));
        __int128 gain = model_gain(&fates, &costs, next), before = model_gain(&fates, &costs, rule);
        uint32_t seen = fates.soon + fates.late + fates.gone;
        FUZZ_CHECK(next == HK_SITE_NO_RULE || gain >= 0);
        FUZZ_CHECK(next == rule || (next == HK_SITE_NO_RULE ? before < 0 : gain > before && seen >= 4));
        rule = next;
    }
}
