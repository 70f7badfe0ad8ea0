/* Background state: records what the background thread does. The thread sleeps if no free memory waits for the purge delay.
 * A sleeping thread makes no system call. Other threads wake it when they free memory in a heap that is large enough.
 *
 *   AWAKE --a round begins--> IN_ROUND --no free memory waits--> ASLEEP
 *   Other threads change IN_ROUND and ASLEEP back to AWAKE when memory comes free.
 *
 * Owns       This file owns the background thread's state. It sets HK_MODE_WAKE while a background thread is needed but absent.
 * Invariant  The thread falls asleep only if no notification came since its last round began, because the round may have missed newer free memory.
 * Threads    Any thread may call notify, force and leave, and read the state. Only the background thread, and the threads that create and end it,
 *            call the other functions. */
#pragma once

#include "policy/gate.h"

enum hk_background_states {
    HK_BACKGROUND_ABSENT,   /* there is no background thread */
    HK_BACKGROUND_AWAKE,    /* a round must begin */
    HK_BACKGROUND_IN_ROUND, /* a round has begun, and the thread was not notified since then */
    HK_BACKGROUND_ASLEEP,   /* the thread sleeps until it is notified */
    HK_BACKGROUND_LEAVING   /* the thread must end */
};
extern _Atomic uint32_t hk_background_state;

/* begin is called when the background thread begins, and end when it has ended. */
void hk_background_state_begin(void);
void hk_background_state_end(void);
/* Tells the background thread that blocks were freed in a heap with this footprint. */
void hk_background_notify(size_t footprint);
bool hk_background_is_worth(size_t footprint);
/* Makes the background thread run another round, whatever the footprint is. */
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

/* The background thread calls this function before a round. Returns true if the thread was notified since the previous round. */
bool hk_background_before_round(void);
/* The background thread calls this function to wait for `ms` milliseconds, or until it has to leave. */
void hk_background_rest(uint64_t ms);
/* The background thread calls this function to sleep until it is notified. Returns at once if it was notified since its last round began. */
void hk_background_sleep(void);
