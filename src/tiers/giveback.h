/* GiveBack: when free memory goes back to the system: from slow paths, at most once per interval, or all at once when asked.
 * Owns     the time of the last pass.
 * Threads  any. */
#ifndef HK_GIVEBACK_H
#define HK_GIVEBACK_H

#include "base/base.h"

/* A glance at the clock; a pass if one is due. True if there was one, whoever made it, since the caller last asked: *seen is
 * the caller's own note of that. */
bool hk_giveback_tick(uint64_t *seen);
/* Everything that is free, now. Returns bytes. */
size_t hk_giveback_all(void);

#endif
