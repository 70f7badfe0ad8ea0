/* ExitReport: writes reports and heap profiles at exit, at intervals, on a signal, at a peak of memory, and when the program asks for them.
 *
 * Owns     This file owns the time of HAKMEM's start, pending requests of reports, the time of the last profile, and the last peak.
 * Threads  Any thread may call the functions, unless their comments say otherwise. */
#ifndef HK_EXIT_REPORT_H
#define HK_EXIT_REPORT_H

#include "base/base.h"

/* Prints a message for each set option that has no effect without another option. Called once, after the options have been read. */
void hk_reports_check(void);
/* Resets the state of reports and profiles. Called at the start after the options have been read, and in a fork child. */
void hk_reports_begin(void);

/* Returns true if the options ask for reports or heap profiles while the program runs (at intervals, on a signal, or at a peak). */
bool hk_reports_wanted(void);
/* Installs the handler of the report signal, unless the program has set its own. */
void hk_reports_listen(void);
/* Writes a report or a heap profile if it is due or requested. Returns the ms until the next call. Only the background thread calls the function. */
uint64_t hk_report_if_due(uint64_t now_ms);

/* These two functions write a report or a heap profile now. The path "-" stands for `standard_error`, which is HK_STDERR or HK_STDERR_ASKED_FOR
 * (message.h). They return 0, or a negative error number, which is -ENODATA if sampling is off. Precondition: HAKMEM has started. */
int hk_report_write(const char *path, int standard_error);
int hk_heap_profile_write_to(const char *path, int standard_error);
/* Writes the report and the heap profile at exit if the options ask for them. Then the background thread writes no more files. */
void hk_exit_report(void);
/* Writes only the heap profile, and takes no lock. */
void hk_exit_profile(void);

/* Returns false if this thread, which a signal handler has interrupted, may hold a lock. Only a handler that ends the process calls the function. */
bool hk_report_may_take_locks(void);

/* Installs a handler that writes the report and the heap profile if SIGTERM ends the program. Called by the first thread.
 *
 *   SIGTERM -> handler: the profile; the report, unless the signal came in the middle of a slow call -> the default action: same status
 *
 * The handler is installed only if an option asks for a report or a profile and the program has no handler when HAKMEM is loaded. A handler that the
 * program installs later replaces it. The interposed sigaction() and signal() report SIG_DFL for it, and SIG_DFL installs it again
 * (os/linux_signals.c). */
void hk_term_begin(void);

/* Installs handlers that print the debug rings on SIGUSR2 and on fatal signals. HAKMEM also prints them before it aborts the process. Called by the
 * first thread. The handlers are installed only if the option trace_ring is set and the program has no handler. After a fatal signal, the handler
 * takes the signal's default action with the same siginfo, so that the exit status and the core dump do not change. */
void hk_crash_begin(void);

/* Prints one line about the first allocation that is refused. Later refusals are silent. */
void hk_first_refusal_report(size_t requested);

#endif
