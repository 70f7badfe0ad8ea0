/* Learning: runs the learner at each tick. A tick begins in a slow call of malloc or in the background thread, 150 ms after the last one. It passes
 * the learner's signals to the learner, publishes the learner's knobs on the policy page, and writes the learner's decisions to the log.
 * Owns     This file owns the learner, its signals at the last tick, and the length of the log. The log is not kept open between two writes.
 * Threads  Any thread may call the functions. If another thread runs a tick, hk_learning_tick() returns at once. Its caller must hold no lock. */
#pragma once

#include "decay/decay.h"

void hk_learning_begin(void);
/* Looks for the memory goal. Called before the program enters a sandbox, which may forbid the system calls that read the goal. */
void hk_learning_shut_in(void);
void hk_learning_tick(void);
/* Writes the remaining decisions and the learned profile when the process exits. */
void hk_learning_end(void);

HK_INLINE bool hk_learning_is_due(void) { return hk_reuse_now() >= hk_load(hk_decay_learner_due_ms); }
