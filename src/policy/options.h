/* Options: holds the user's settings, which are read once at the start.
 * Owns       Only this file reads options from the environment.
 * Invariant  Every value lies in the range of its row. An invalid value or an unknown option changes nothing, and a warning is printed.
 * Threads    The options are written before a second thread exists, and are constant afterwards. */
#pragma once

#include "base/base.h"

extern struct hk_options {
#define HK_OPT_FIELD_NUMBER(name) uint64_t name;
#define HK_OPT_FIELD_TEXT(name) const char *name;
#define HK_OPT_FIELD_WORD(name) uint64_t name;
#define HK_OPT(kind, name, fallback, min, max, scope, unit, meaning) HK_OPT_FIELD_##kind(name)
#include "policy/options.def"
} hk_options;

/* The values of the WORD options count, learn, core, site_rules, background, free_policy, thp, safe_free, trace_remote and deepbind, in this order. */
enum { HK_COUNT_OFF, HK_COUNT_ON, HK_COUNT_AUTO };
enum { HK_LEARN_OFF, HK_LEARN_ON, HK_LEARN_FROZEN, HK_LEARN_CANARY, HK_LEARN_SETTLE };
enum { HK_CORE_ALL, HK_CORE_LIVE };
enum { HK_SITE_RULES_OFF, HK_SITE_RULES_ON, HK_SITE_RULES_WATCH };
enum { HK_BACKGROUND_OFF, HK_BACKGROUND_ON, HK_BACKGROUND_AUTO };
enum { HK_FREE_KEEP, HK_FREE_BATCH, HK_FREE_ADAPTIVE };
enum { HK_THP_OFF, HK_THP_AUTO, HK_THP_ON };
enum { HK_SAFE_FREE_OFF, HK_SAFE_FREE_ON, HK_SAFE_FREE_STRICT, HK_SAFE_FREE_EXIT };
enum { HK_TRACE_REMOTE_OFF, HK_TRACE_REMOTE_ON, HK_TRACE_REMOTE_AUTO };
enum { HK_DEEPBIND_KEEP, HK_DEEPBIND_DROP };

/* Reads the options from the environment. First applies the profile, because options that are set individually override the profile. */
void hk_options_read(void);
/* Applies a profile, which is a set of options. `name` is a row of profiles.def, or else the path of a file with lines of the form `name = value`. In
 * the file, # begins a comment. An error in the file only causes a warning. Called before a second thread exists. */
void hk_profile_apply(const char *name);
/* Returns true if a variable in the environment begins with HAKMEM_, and options are not ignored. */
bool hk_options_given(void);
/* Returns the entry NAME=VALUE of the environment, or NULL if there is none. */
const char *hk_option_entry(const char *name);
/* Makes HAKMEM ignore all options, and write no file that an option requests. Called in a copy of HAKMEM that does not serve the process. */
void hk_options_ignore(void);
/* Parses a decimal number such as "64k". The suffixes k, m and g stand for 2^10, 2^20 and 2^30. Returns false for other text, and on overflow. */
bool hk_option_number(const char *text, size_t length, uint64_t *value);
/* Calls `visit` for each option with its value, which is a text or a number. */
void hk_options_visit(void (*visit)(void *context, const char *name, const char *text, uint64_t number), void *context);
