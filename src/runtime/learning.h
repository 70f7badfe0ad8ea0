/* Learning: runs the learner. It collects the learner's signals, publishes the knobs that the learner sets, and logs the learner's decisions.
 *
 *   a slow call of malloc, 150 ms after the last tick: counts --> learner --> policy page; decisions --> the log
 *
 * Owns     This file owns the learner, the counts of the last tick, and the length of the log. No file stays open.
 * Threads  Any thread may call the functions. If another thread runs a tick, hk_learning_tick returns. The caller of a tick holds no lock. */
#ifndef HK_LEARNING_H
#define HK_LEARNING_H

#include "decay/decay.h"

void hk_learning_begin(void);
/* Looks for the memory goal before the program enters a sandbox, because the sandbox may forbid system calls that read the goal. */
void hk_learning_shut_in(void);
void hk_learning_tick(void);
/* Writes the remaining decisions and the profile, at exit. */
void hk_learning_end(void);

HK_INLINE bool hk_learning_is_due(void) { return hk_reuse_now() >= hk_load(hk_decay_learner_due_ms); }

#endif
