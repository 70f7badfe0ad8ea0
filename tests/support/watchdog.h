/* watchdog: turns a hang into a failure with a name.
 *
 * The kernel's alarm() kills the process by SIGALRM after so many seconds; a line on stderr names the step. A child of fork
 * has no alarm of its own (POSIX clears it), so it calls watchdog_start again. */
#ifndef TEST_SUPPORT_WATCHDOG_H
#define TEST_SUPPORT_WATCHDOG_H

#ifdef __cplusplus
extern "C" {
#endif

enum { WATCHDOG_EXIT = 124 };

/* The seconds are for a machine that is idle: a busy one gets up to five times as many. TEST_SLOWDOWN=N in the environment (valgrind, sanitizers) multiplies
 * them. */
void watchdog_start(unsigned seconds, const char *what);
void watchdog_stop(void);

#ifdef __cplusplus
}
#endif
#endif
