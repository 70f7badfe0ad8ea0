/* Wake: when the background thread sleeps, and who wakes it.
 *
 *   absent --it begins--> awake --a round begins--> drowsy --the round found nothing that waits--> asleep: no call, no clock
 *                           ^                         |                                               |
 *                           +------ a stir: something came free in a heap that is worth it -----------+     leaving: for good
 *
 * Owns       the background thread's state; whether one is wished for.
 * Invariant  it falls asleep only after a whole round that began when it was drowsy already: what came free before was seen, what came
 *            later stirs it.
 * Threads    stir, rouse, leave: any. All else: the background thread, and who makes it or ends it. */
#ifndef HK_WAKE_H
#define HK_WAKE_H

#include "base/base.h"

enum hk_wakefulness { HK_WAKE_ABSENT, HK_WAKE_AWAKE, HK_WAKE_DROWSY, HK_WAKE_ASLEEP, HK_WAKE_LEAVING };
extern _Atomic uint32_t hk_wake_state;

/* A background thread is wanted, and there is none: for who may make one. */
extern _Atomic bool hk_wake_wanted;

/* There is one from now on; none any more. */
void hk_wake_begin(void);
void hk_wake_end(void);

/* A heap of so many bytes, warm ones, has blocks that came free. */
void hk_wake_notify(size_t footprint);
/* Is a heap of so many bytes worth a thread? */
bool hk_wake_is_worth(size_t footprint);
/* It looks at all again, whatever there is. */
void hk_wake_force(void);
/* It ends as soon as it can. */
void hk_wake_leave(void);

/* Does it see to what lies idle at this moment, so that nobody else needs to? */
HK_INLINE bool hk_wake_works(void)
{
    uint32_t state = hk_load(hk_wake_state);
    return state == HK_WAKE_AWAKE || state == HK_WAKE_DROWSY;
}

HK_INLINE bool hk_wake_is_leaving(void) { return hk_load(hk_wake_state) == HK_WAKE_LEAVING; }

/* The background thread's. Before a round; true if something stirred since the round before. */
bool hk_wake_before_round(void);
/* For so long, unless it has to leave. */
void hk_wake_rest(uint64_t ms);
/* Until something stirs; not at all if something has. */
void hk_wake_sleep(void);

#endif
