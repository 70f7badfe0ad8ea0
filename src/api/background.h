/* Background: the thread that gives memory back while the program does nothing; only where an option asks for it; and writes
 * the reports that were asked for meanwhile.
 *
 *   absent --a malloc of a heap worth it--> running --the last thread with a cache has ended--> absent      a fork child: absent
 *
 * Owns     whether it runs.
 * Threads  any.
 * Never    begins in a free (the C library frees under locks that the making of a thread takes), in a malloc of the dynamic
 *          loader's, in a vfork child, or while HAKMEM holds a lock. It never allocates, and gets no signal. */
#ifndef HK_BACKGROUND_H
#define HK_BACKGROUND_H

#include "base/base.h"

/* In this process there is none yet: at the start, and in a fork child. */
void hk_background_reset(void);

/* At the end of a malloc that took long: `caller` is whose code called it. */
void hk_background_begin(const void *caller);

#endif
