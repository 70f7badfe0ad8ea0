/* watchdog: ends a test that hangs, and names the step that hung.
 *
 * After the given number of seconds, alarm() sends SIGALRM. The handler prints the name of the step on stderr and ends the process. A child of fork
 * has no alarm, because POSIX clears it, so the child must call watchdog_start again. */
#ifndef TEST_SUPPORT_WATCHDOG_H
#define TEST_SUPPORT_WATCHDOG_H

#ifdef __cplusplus
extern "C" {
#endif

enum { WATCHDOG_EXIT = 124 };

/* Starts the watchdog. `seconds` is for an idle machine, and a busy machine gets up to five times as many. TEST_SLOWDOWN=N in the environment
 * (valgrind, sanitizers) multiplies them. */
void watchdog_start(unsigned seconds, const char *what);
void watchdog_stop(void);

#ifdef __cplusplus
}
#endif
#endif
