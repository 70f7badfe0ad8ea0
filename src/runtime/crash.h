/* Crash: prints the debug rings on SIGUSR2, on a fatal signal, and before HAKMEM itself aborts the process.
 *
 *   fault or abort() -> handler: prints the events, once -> the default action with the same siginfo: same exit status and core dump
 *
 * Owns     the signal handlers. They are installed only if the option trace_ring is set and the program has not set its own.
 * Threads  hk_crash_begin(): the first. The handlers: any. */
#ifndef HK_CRASH_H
#define HK_CRASH_H

void hk_crash_begin(void);

#endif
