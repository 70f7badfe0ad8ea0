/* Learning: runs the learner: collects its signals, publishes the knobs that it sets, and writes its decisions to the log.
 *
 *   a slow call of malloc, 150 ms after the last tick: counts --> learner --> policy page; decisions --> the log
 *
 * Owns     the learner, the counts of the last tick, the length of the log. No file stays open.
 * Threads  any; a thread that finds a tick under way returns. No tick runs while HAKMEM holds a lock. */
#ifndef HK_LEARNING_H
#define HK_LEARNING_H

#include "decay/decay.h"

void hk_learning_begin(void);
/* Called before the program enters a sandbox. Looks for the memory goal, because system calls may be forbidden later. */
void hk_learning_shut_in(void);
void hk_learning_tick(void);
/* Writes the remaining decisions and the profile, at exit. */
void hk_learning_end(void);

HK_INLINE bool hk_learning_is_due(void) { return hk_reuse_now() >= hk_load(hk_decay_learner_due_ms); }

#endif
