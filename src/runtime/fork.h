/* Fork: the child has one thread, and everything that a lock protects is consistent in it. The parent is not affected.
 *
 *   prepare: stream lock, then all locks by rank (base/ranks.def) --fork--> parent: unlocks in reverse order
 *                                                                     child: resets the locks, then repairs the rest
 *
 * The child has no background thread, and the caches of the other threads go to the pool. Updates that those threads were making without
 * a lock, or under one of their own, are reconstructed from consistent data (docs/OWNERSHIP.md).
 * Owns     the handlers.
 * Threads  hk_fork_watch(): one at a time. The handlers: the thread that forks. */
#ifndef HK_FORK_H
#define HK_FORK_H

#include "base/base.h"

/* Registers the handlers. Called once. */
void hk_fork_watch(void);

#endif
