/* ExitReport: writes reports and heap profiles at exit, at intervals, on a signal, at a peak of memory, and when the program asks for them.
 * Owns     This file owns the time of HAKMEM's start, pending requests of reports, the time of the last profile, and the last peak.
 * Threads  Any thread may call the functions. The comments of the functions name the exceptions. */
#pragma once

#include "base/base.h"

/* Resets the state of reports and profiles. Called in a fork child, and at the start after the options have been read. At the start, it prints a
 * message for each option that was set but has no effect without another option. */
void hk_reports_begin(void);

/* Returns true if the options ask for reports or heap profiles while the program runs: at intervals, on a signal, or at a peak. */
bool hk_reports_wanted(void);
/* Installs HAKMEM's handler of the report signal, unless the program has already installed one. */
void hk_reports_listen(void);
/* Writes a report or a heap profile if one is due or requested. Returns the ms until the next call. Called only by the background thread. */
uint64_t hk_report_if_due(uint64_t now_ms);

/* These two functions write a report or a heap profile now. The path "-" means HK_STDERR_ASKED_FOR (message.h). They return 0, or a negative error
 * number, which is -ENODATA for a heap profile without sampling. HAKMEM must have started. */
int hk_report_write(const char *path);
int hk_heap_profile_write_to(const char *path);
/* Writes the files that options ask for at exit. The background thread then writes no more. Without `takes_locks`, writes only the heap profile. */
void hk_exit_report(bool takes_locks);

/* Returns false if this thread may hold a lock, which is possible in a signal handler. Called only just before the process ends. */
bool hk_report_may_take_locks(void);

/* Installs handlers for signals that end the program (os/linux_signals.c). Called by the first thread. If an option names a file to write at exit, the
 * handler of SIGTERM writes the heap profile, and also the report if the thread holds no lock. With the option trace_ring, the handlers of SIGUSR2
 * and of fatal signals print the debug rings. HAKMEM also prints them before it aborts the process. With the option core=live, the handlers of fatal
 * signals leave free memory out of the core dump. After the handler of a signal that ends the program, the signal takes its default action, so that
 * the exit status does not change. */
void hk_signals_begin(void);
