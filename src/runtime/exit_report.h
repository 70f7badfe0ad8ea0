/* ExitReport: writes reports and heap profiles: at exit, at intervals, on a signal, at a peak, and on request.
 *
 * Owns     the time of HAKMEM's start, the requests that are pending, when the next profile is due, and the peak of the last profile.
 * Threads  any. */
#ifndef HK_EXIT_REPORT_H
#define HK_EXIT_REPORT_H

#include "base/base.h"

/* Reports which options have no effect without another. Called once, after the options have been read. */
void hk_reports_check(void);
/* Resets the state. Called at the start, after the options have been read, and in a fork child. */
void hk_reports_begin(void);

/* Returns true if the options ask for reports or heap profiles while the program runs, which may be at intervals, on a signal, or at a peak. */
bool hk_reports_wanted(void);
/* Installs the handler of the report signal, unless the program has set its own. */
void hk_reports_listen(void);
/* Writes a report or a heap profile if one is due or requested. Returns the ms until the next call. Only the background thread calls it. */
uint64_t hk_report_if_due(uint64_t now_ms);

/* Write a report or the profile now. "-" stands for standard error, which is HK_STDERR or HK_STDERR_ASKED_FOR (message.h). Return 0, or a negative
 * error number, -ENODATA if no sample was ever taken. Precondition: HAKMEM has started. */
int hk_report_write(const char *path, int standard_error);
int hk_heap_profile_write_to(const char *path, int standard_error);
/* Writes at exit what HAKMEM_REPORT and HAKMEM_HEAP_PROFILE ask for. Lets the background thread finish its file, but begin no other. */
void hk_exit_report(void);
/* Writes only the profile, without a lock. */
void hk_exit_profile(void);

/* Returns false if a signal handler, in which the process ends, may have interrupted this thread while it held a lock. */
bool hk_report_may_take_locks(void);

/* Writes the report and the heap profile of a program that SIGTERM ends. Called by the first thread.
 *
 *   SIGTERM -> handler: the profile; the report, unless the signal came in the middle of a slow call -> the default action: same status
 *
 * The handler is installed only if an option asks for a report or a profile and the program has no handler when HAKMEM is loaded. A handler that the
 * program installs later replaces it. The interposed sigaction() and signal() report SIG_DFL for it, and SIG_DFL installs it again
 * (os/linux_signals.c). */
void hk_term_begin(void);

/* Prints the debug rings on SIGUSR2, on a fatal signal, and before HAKMEM itself aborts the process. Called by the first thread. The handlers are
 * installed only if the option trace_ring is set and the program has not set its own. After a fault or abort(), the default action follows with
 * the same siginfo, so that the exit status and the core dump stay the same. */
void hk_crash_begin(void);

/* Prints one line about the first allocation that is refused. Later refusals are silent. */
void hk_first_refusal_report(size_t requested);

#endif
