/* Signals: the learner's input at a tick, as 64-bit words.
 * Threads  values. */
#ifndef HK_SIGNALS_H
#define HK_SIGNALS_H

#include "base/base.h"
#include "count/stats.h"

enum hk_signal {
#define HK_SIGNAL(name, unit, meaning) HK_SIGNAL_##name,
#include "learn/signals.def"
#undef HK_SIGNAL
    HK_SIGNALS
};
_Static_assert(HK_SIGNAL_back_later - HK_SIGNAL_back_64ms + 1 == HK_REUSE_SPANS, "one signal per span of reuse");

struct hk_signals {
    uint64_t value[HK_SIGNALS];
};

#define HK_SAW(signals, name) ((signals)->value[HK_SIGNAL_##name])

#endif
