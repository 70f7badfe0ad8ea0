/* Start: HAKMEM starts at its first call after relocation, step by step; a step that fails is repeated at the next call.
 *
 *   bootstrapping (the loader relocates) --first call--> options and profile -> page map -> lists and locks, gate --> started
 *
 * Owns     the steps, and the number of those done.
 * Threads  any. */
#ifndef HK_START_H
#define HK_START_H

#include "base/lock.h"

/* True until the loader has relocated this library and set up thread-local storage. Until then, only the bootstrap
 * arena works. */
bool hk_is_bootstrapping(void);

/* True if HAKMEM has started; starts it if necessary. False while bootstrapping, or if memory is refused: the next call
 * tries again. */
extern _Atomic bool hk_start_done;
bool hk_start(void);
HK_INLINE bool hk_started(void) { return HK_LIKELY(hk_load_acquire(hk_start_done)) || hk_start(); }

/* Serializes what happens once per process. */
extern struct hk_lock hk_start_lock;

#endif
