/* Background state: records what the background thread does. The thread sleeps while no memory ages, and other threads wake it when they free memory.
 *
 *   absent --begin--> awake --a round begins--> in a round --the round found no aging memory--> asleep: no system call, no clock
 *                       ^                         |                                           |
 *                       +--- notify: memory came free in a heap that is large enough ---------+      leaving: final
 *
 * Owns       This file owns the background thread's state. It sets HK_MODE_WAKE while a background thread is needed but absent.
 * Invariant  The thread falls asleep only if no notification came since its last round began. This round has seen all memory that came free
 *            before the round. Memory that comes free later wakes the thread.
 * Threads    Any thread may call notify, force and leave, and read the state. Only the background thread, and the threads that create and end it,
 *            call the other functions. */
#ifndef HK_BACKGROUND_STATE_H
#define HK_BACKGROUND_STATE_H

#include "policy/gate.h"

enum hk_background_states {
    HK_BACKGROUND_ABSENT,
    HK_BACKGROUND_AWAKE,
    HK_BACKGROUND_IN_ROUND,
    HK_BACKGROUND_ASLEEP,
    HK_BACKGROUND_LEAVING
};
extern _Atomic uint32_t hk_background_state;

/* begin is called when the background thread begins. end is called when the thread has ended. */
void hk_background_state_begin(void);
void hk_background_state_end(void);
/* Tells the background thread that blocks were freed in a heap with this footprint. */
void hk_background_notify(size_t footprint);
/* Returns true if a heap with this footprint is worth a background thread. */
bool hk_background_is_worth(size_t footprint);
/* Wakes the background thread for another round, whatever the footprint is. */
void hk_background_force(void);
/* Makes the background thread end as soon as it can. */
void hk_background_leave(void);

/* Returns true while the background thread purges idle memory, so that the other threads need not purge it. */
HK_INLINE bool hk_background_works(void)
{
    uint32_t state = hk_load(hk_background_state);
    return state == HK_BACKGROUND_AWAKE || state == HK_BACKGROUND_IN_ROUND;
}
HK_INLINE bool hk_background_is_leaving(void) { return hk_load(hk_background_state) == HK_BACKGROUND_LEAVING; }

/* The background thread calls this before a round. Returns true if the thread was notified since the previous round. */
bool hk_background_before_round(void);
/* The background thread calls this to wait for `ms` milliseconds, or until it has to leave. */
void hk_background_rest(uint64_t ms);
/* The background thread calls this to sleep until it is notified. Returns immediately if the thread was already notified. */
void hk_background_sleep(void);

#endif
