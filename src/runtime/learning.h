/* Learning: the learner's conductor: gathers what it sees, publishes what it decides, and writes down why.
 *
 *   a slow call of malloc, 150 ms after the last tick: counts --> learner --> policy page; decisions --> the log
 *
 * Owns     the learner, the counts of the tick before, the log's length.
 * Threads  any; who finds a tick under way goes on.
 * Never    ticks while HAKMEM holds a lock; keeps a file open. */
#ifndef HK_LEARNING_H
#define HK_LEARNING_H

#include "count/reuse.h"

extern _Atomic uint64_t hk_learning_due_ms;

void hk_learning_begin(void);
void hk_learning_tick(void);
/* Writes what is left to be written: at exit. */
void hk_learning_end(void);

HK_INLINE bool hk_learning_is_due(void) { return hk_reuse_now() >= hk_load(hk_learning_due_ms); }

#endif
