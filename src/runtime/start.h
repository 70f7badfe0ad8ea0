/* Start: when HAKMEM starts, and in which order.
 *
 *   dawning (the loader is at work) --first call--> options and profile -> map -> lists, and the gate opens --> started
 *
 * Owns     the steps, and which of them are done.
 * Threads  any. */
#ifndef HK_START_H
#define HK_START_H

#include "base/lock.h"

/* True until the loader has relocated this library and set up the thread's storage: nothing but the bootstrap arena works. */
bool hk_life_is_bootstrapping(void);

/* True once the rooms below are ready; starts them if need be. False if memory is refused: the next call tries again. */
extern _Atomic bool hk_start_done;
bool hk_start(void);
HK_INLINE bool hk_life_started(void) { return HK_LIKELY(hk_load_acquire(hk_start_done)) || hk_start(); }

/* Held while something is begun that a process has once. */
extern struct hk_lock hk_start_lock;

#endif
