/* ExitReport: when a report and a heap profile are written, and where to.
 *
 *   NAME.PID.tmp is written, then renamed to NAME: who reads NAME sees one report, whole. What is no file is written to as it is.
 *
 * Owns     the time that HAKMEM started, and what was asked for while the program runs.
 * Threads  any. */
#ifndef HK_EXIT_REPORT_H
#define HK_EXIT_REPORT_H

#include "base/base.h"

/* Once the options are known: at the start, and in a fork child. */
void hk_reports_begin(void);

/* Is a report wanted while the program runs: again and again, or on a signal? */
bool hk_reports_wanted(void);
/* Listens to the signal that asks for one, if the program leaves it to HAKMEM. */
void hk_reports_listen(void);
/* Writes one if it is due or was asked for; ms until this wants to be called again. By the background thread only. */
uint64_t hk_report_if_due(uint64_t now_ms);

/* Writes one now; "-" is standard error, whose descriptor is HK_STDERR or HK_STDERR_ASKED_FOR (message.h). False if it cannot be written. */
bool hk_report_write(const char *path, int standard_error);
/* The same of the heap profile, which there is only where one was asked for. Only once HAKMEM has started. */
bool hk_heap_profile_write_to(const char *path, int standard_error);

/* What HAKMEM_REPORT and HAKMEM_HEAP_PROFILE asked for, if they did. The last report: one that is being written meanwhile is waited for, and none
 * comes after. */
void hk_exit_report(void);

/* The one line about the first refusal; later ones are silent. */
void hk_first_refusal_report(size_t requested);

#endif
