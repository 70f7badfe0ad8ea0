/* Learning: runs the learner: collects its signals, publishes the knobs that it sets, and writes its decisions to the log.
 *
 *   a slow call of malloc, 150 ms after the last tick: counts --> learner --> policy page; decisions --> the log
 *
 * Owns     the learner, the counts of the last tick, the length of the log.
 * Threads  any; a thread that finds a tick under way returns.
 * Never    ticks while HAKMEM holds a lock; keeps a file open. */
#ifndef HK_LEARNING_H
#define HK_LEARNING_H

#include "decay/decay.h"

void hk_learning_begin(void);
/* Before the program enters a sandbox: asks what is to be asked of the system. */
void hk_learning_shut_in(void);
void hk_learning_tick(void);
/* At exit: writes the remaining decisions and the profile. */
void hk_learning_end(void);

HK_INLINE bool hk_learning_is_due(void) { return hk_reuse_now() >= hk_load(hk_decay_learner_due_ms); }

#endif
