/* Policy: holds the knobs, the options that may change while the program runs (scope `policy`). A page holds the values of all knobs, at the start
 * those of the options. To change knobs, the learner writes and seals another page, and swaps the pointer hk_policy_now. So all change at once.
 * Owns       This file owns the pages. A page is written again after HK_POLICY_PAGES - 1 other pages. A reader that still holds the page may then see
 *            values of two policies, but each value is in its range.
 * Invariant  Every knob lies in the range of its row.
 * Threads    Any thread may read. Only one thread at a time may publish. */
#pragma once

#include "base/message.h"
#include "policy/options.h"

/* HK_TICK_MS is the time in ms between two ticks. At a tick, a thread looks for idle memory, and the learner reads its signals. */
enum { HK_TICK_MS = 150 };

#define HK_KNOB_IF_start(...)
#define HK_KNOB_IF_policy(...) __VA_ARGS__,
enum hk_knob {
#define HK_OPT(kind, name, fallback, min, max, scope, unit, meaning) HK_KNOB_IF_##scope(HK_KNOB_##name)
#include "policy/options.def"
    HK_KNOBS
};

struct hk_knobs {
    uint64_t value[HK_KNOBS];
};

extern const struct hk_knob_row {
    const char *name, *unit;
    const uint64_t *option;
    uint64_t fallback, min, max;
} hk_knob_rows[HK_KNOBS];

/* At each tick, the learner decides which of these phases the program is in. */
enum hk_phase { HK_PHASE_STEADY, HK_PHASE_BURST, HK_PHASE_REMOTE, HK_PHASE_TIGHT, HK_PHASES };
extern const char hk_phase_names[HK_PHASES][16];
enum { HK_POLICY_PAGES = 8 };

struct hk_policy {
    _Atomic uint64_t xvalue[HK_KNOBS];
    _Atomic uint64_t xstate; /* enum hk_phase */
};
extern _Atomic(const struct hk_policy *) hk_policy_now;

HK_INLINE uint64_t hk_policy_value(enum hk_knob knob) { return hk_load(hk_load_acquire(hk_policy_now)->xvalue[knob]); }
HK_INLINE enum hk_phase hk_policy_phase(void) { return (enum hk_phase)hk_load(hk_load_acquire(hk_policy_now)->xstate); }
#define HK_POLICY(name) hk_policy_value(HK_KNOB_##name)

/* If purge_delay exceeds HK_PATIENT_MS, excess and ended threads' memory are purged by age only. Idle memory up to 1/4 of the used is no excess. */
enum { HK_PATIENT_MS = 1000, HK_IDLE_PER_USED = 4 };
HK_INLINE bool hk_policy_purges_excess(void)
{
    return hk_options.free_policy == HK_FREE_ADAPTIVE && HK_POLICY(purge_delay) <= HK_PATIENT_MS;
}

/* Writes the values of the options into the first page, and publishes it. */
void hk_policy_begin(void);
void hk_policy_read(struct hk_knobs *knobs);
/* Publishes the knobs and the phase. Returns false, and changes nothing, if no page is available. */
bool hk_policy_publish(const struct hk_knobs *knobs, enum hk_phase state);

/* Adds the knobs as lines of a profile. */
void hk_profile_add(struct hk_text *text, const struct hk_knobs *knobs);
