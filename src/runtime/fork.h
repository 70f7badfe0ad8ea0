/* Fork: the parent goes on as if nothing had happened; in the child there is one thread, and all is whole that a lock protects.
 *
 *   prepare: the stream lock, then all locks by rank (base/ranks.def) --the kernel copies--> parent: the locks, backwards
 *                                                                                     child: the same, then what is special
 *
 * What is special: there is no background thread and no other thread's cache; what those threads were in the middle of, without a lock
 * or under one of their own, is made anew from what can be believed (docs/OWNERSHIP.md).
 * Owns     the handlers.
 * Threads  watch: one at a time. The handlers: whichever forks. */
#ifndef HK_FORK_H
#define HK_FORK_H

#include "base/base.h"

/* From now on, once. */
void hk_fork_watch(void);

#endif
