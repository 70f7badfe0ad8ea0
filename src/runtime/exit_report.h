/* ExitReport: writes reports and heap profiles at exit, at intervals, on a signal, at a peak of memory, and when the program asks for them.
 *
 * Owns     This file owns the time of HAKMEM's start, pending requests of reports, the time of the last profile, and the last peak.
 * Threads  Any thread may call the functions. The comments of the functions name the exceptions. */
#ifndef HK_EXIT_REPORT_H
#define HK_EXIT_REPORT_H

#include "base/base.h"

/* Resets the state of reports and profiles. Called in a fork child, and at the start after the options have been read. At the start, prints a message
 * for each set option that has no effect without another option. */
void hk_reports_begin(void);

/* Returns true if the options ask for reports or heap profiles while the program runs (at intervals, on a signal, or at a peak). */
bool hk_reports_wanted(void);
/* Installs the handler of the report signal. A handler that the program has installed before stays. */
void hk_reports_listen(void);
/* Writes a report or a heap profile if it is due or requested. Returns the ms until the next call. Only the background thread calls the function. */
uint64_t hk_report_if_due(uint64_t now_ms);

/* These two functions write a report or a heap profile now. The path "-" stands for HK_STDERR_ASKED_FOR (message.h). The functions return 0 or a
 * negative error number. If sampling is off, there is no heap profile, and the error is -ENODATA. Precondition: HAKMEM has started. */
int hk_report_write(const char *path);
int hk_heap_profile_write_to(const char *path);
/* Writes the files that the options ask for at exit. Afterwards the background thread writes no more files. Without `takes_locks`, writes only the
 * heap profile, which needs no lock. */
void hk_exit_report(bool takes_locks);

/* Returns false if this thread may hold a lock, which is possible in a signal handler. Called only just before the process ends. */
bool hk_report_may_take_locks(void);

/* Installs handlers of signals that end the program. Called by the first thread.
 *
 *   SIGTERM -> handler: writes the profile, and the report if the thread holds no lock -> the default action, so that the exit status is the same
 *
 * A handler is installed only if an option asks for it and the program has no handler when HAKMEM is loaded. A handler that the program installs
 * later replaces HAKMEM's. The interposed sigaction() and signal() report HAKMEM's handler as SIG_DFL. If the program sets SIG_DFL, they install
 * HAKMEM's handler again (os/linux_signals.c).
 *
 * With the option trace_ring, the handlers of SIGUSR2 and of fatal signals print the debug rings. HAKMEM also prints them before it aborts the
 * process. After a fatal signal, the handler takes the signal's default action with the same siginfo, so that the exit status and the core dump do
 * not change. */
void hk_signals_begin(void);

/* Prints one line about the first allocation that is refused, if the option oom_report is on. Later refusals are silent. */
void hk_first_refusal_report(size_t requested);

#endif
