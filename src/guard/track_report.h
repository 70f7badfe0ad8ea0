/* Track report: turns the remote track on (slab/remote_track.h), tells it where a free is, and tells the user of a block that is where
 * it cannot be.
 *
 *   HAKMEM_TRACE_REMOTE=1: the whole call stack of each free by another thread; every free is checked first (block_checks.h)
 *   debug build:           its caller
 *
 * Owns       no state: prof/stack.h has the stacks.
 * Threads    begin: the start. The rest: any. */
#ifndef HK_TRACK_REPORT_H
#define HK_TRACK_REPORT_H

#include "base/message.h"
#include "guard/guard.h"
#include "span/descriptor.h"

/* At the start, after the options are read and before the first slab is made. */
void hk_track_report_begin(void);

/* `fault`, and what the track knows of the block, in `text`; writes the stack of the block's free. `fault` alone where it knows nothing. */
const char *hk_track_report_fault(struct hk_text *text, const char *fault, const void *block);

#endif
