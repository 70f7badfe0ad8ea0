/* Crash: when the debug rings are shown: on SIGUSR2, on a signal that ends the process, and at HAKMEM's own last line.
 *
 *   fault or abort() -> handler: the events, once -> the default action, with the same particulars: exit status and core as ever
 *
 * Owns     the handlers; only where the option asks for a ring, and the program has left the signal alone.
 * Threads  begin: the first. The handlers: any. */
#ifndef HK_CRASH_H
#define HK_CRASH_H

void hk_crash_begin(void);

#endif
