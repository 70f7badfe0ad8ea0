/* Options: what the user asked for, read once at start.
 * Owns       the only reading of the environment.
 * Invariant  every value lies in its row's range; a bad or unknown one is a warning line, and the default stays.
 * Threads    written before the second thread can exist, constant afterwards. */
#ifndef HK_OPTIONS_H
#define HK_OPTIONS_H

#include "base/base.h"

struct hk_options {
#define HK_OPT_FIELD_NUMBER(name) uint64_t name;
#define HK_OPT_FIELD_TEXT(name) const char *name;
#define HK_OPT(kind, name, fallback, min, max, scope, unit, meaning) HK_OPT_FIELD_##kind(name)
#include "policy/options.def"
#undef HK_OPT
#undef HK_OPT_FIELD_NUMBER
#undef HK_OPT_FIELD_TEXT
};

extern struct hk_options hk_options;

void hk_options_read(void);

/* Calls visit for each option with its effective value as text: for the report. */
void hk_options_visit(void (*visit)(void *context, const char *name, const char *text, uint64_t number), void *context);

#endif
