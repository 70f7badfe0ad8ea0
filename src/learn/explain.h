/* Explain: decisions and signals as lines of text, for the log, the trace and the replay.
 * Threads  any. */
#ifndef HK_EXPLAIN_H
#define HK_EXPLAIN_H

#include "base/message.h"
#include "learn/learner.h"

/* Writes a decision as a line of JSON. */
void hk_explain_decision(struct hk_text *text, const struct hk_decision *decision);

/* Writes a message about the log itself as such a line. */
void hk_explain_log(struct hk_text *text, uint64_t ms, uint64_t lost, const char *why);

/* The header of a trace, and the line for a tick. */
void hk_explain_options(struct hk_text *text, const struct hk_learner *learner);
void hk_explain_signals(struct hk_text *text, uint64_t ms, const struct hk_signals *signals);

#endif
