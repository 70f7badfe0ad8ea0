/* HeapDumps: writes the heap profile: at exit, at intervals, at a peak of the resident memory, and on request.
 *
 *   NAME.PID.tmp is written, then renamed to NAME, as for reports (exit_report.h).
 *
 * Owns     when the next profile is due, and the peak of the last one.
 * Threads  hk_heap_dump_if_due: the background thread. All else: any; takes no lock. */
#ifndef HK_HEAP_DUMPS_H
#define HK_HEAP_DUMPS_H

#include "base/base.h"

/* At the start, after the options have been read, and in a fork child. */
void hk_heap_dumps_begin(uint64_t now_ms);

/* True if the options ask for profiles while the program runs. */
bool hk_heap_dumps_wanted(void);
/* Writes a profile if one is due. Returns the ms until the next call. */
uint64_t hk_heap_dump_if_due(uint64_t now_ms);

/* Writes the profile; "-" is standard error, as HK_STDERR or HK_STDERR_ASKED_FOR (message.h). False if it cannot be written, or if no
 * sample was ever taken. Precondition: HAKMEM has started. */
bool hk_heap_profile_write_to(const char *path, int standard_error);
/* At exit: writes the profile that HAKMEM_HEAP_PROFILE asks for, unless HAKMEM_HEAP_PROFILE_AT chose its moment. */
void hk_heap_dump_at_exit(void);

#endif
