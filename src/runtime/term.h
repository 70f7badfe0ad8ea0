/* Term: writes the report and the heap profile of a program that SIGTERM ends.
 *
 *   SIGTERM -> handler: the profile; the report, unless the signal came in the middle of a slow call -> the default action: same status
 *
 * Owns     the handler, installed only if an option asks for a report or a profile, and the program has none when HAKMEM is loaded. A
 *          handler that the program installs later replaces it; programs that exec begins have the default action.
 *          sigaction() and signal(), interposed, report SIG_DFL for it, and SIG_DFL installs it again (os/linux_signals.c).
 * Threads  hk_term_begin(): the first. The handler: any. */
#ifndef HK_TERM_H
#define HK_TERM_H

void hk_term_begin(void);

/* Crash: prints the debug rings on SIGUSR2, on a fatal signal, and before HAKMEM itself aborts the process.
 *
 *   fault or abort() -> handler: prints the events, once -> the default action with the same siginfo: same exit status and core dump
 *
 * Owns     the signal handlers. They are installed only if the option trace_ring is set and the program has not set its own.
 * Threads  hk_crash_begin(): the first. The handlers: any. */
void hk_crash_begin(void);

#endif
