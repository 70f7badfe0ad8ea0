/* Formats decisions as lines of JSON for the log, and signals as lines of numbers for the trace. */
#include "learn/learner.h"

void hk_explain_decision(struct hk_text *text, const struct hk_decision *decision)
{
    const struct hk_decision_row *row = &hk_decision_rows[decision->kind];
    bool is_state = decision->kind <= HK_DECISION_state_steady; /* the decisions about states come first in the table */
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

void hk_explain_log(struct hk_text *text, uint64_t ms, uint64_t lost, const char *why)
{
    hk_text_add(text, "{\"ms\": %lu, \"who\": \"log\", \"lost\": %lu, \"why\": \"%s\"}\n", ms, lost, why);
}

void hk_explain_options(struct hk_text *text, const struct hk_learner *learner)
{
    hk_text_add(text, "options");
    for (unsigned knob = 0; knob < HK_KNOBS; knob++)
        hk_text_add(text, " %lu", learner->option.value[knob]);
    hk_text_add(text, " %lu %lu %lu\n", learner->reuse_worth, learner->mode, learner->rules);
}

void hk_explain_signals(struct hk_text *text, uint64_t ms, const struct hk_signals *signals)
{
    hk_text_add(text, "tick %lu", ms);
    for (unsigned i = 0; i < HK_SIGNALS; i++)
        hk_text_add(text, " %lu", signals->value[i]);
    hk_text_add(text, "\n");
}
