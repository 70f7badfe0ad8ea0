/* Forward: calls by which a program changes mappings, its privileges or the actions of signals, forwarded to the system as the C library would.
 * Unlike the entries of hk_os, they belong to the program: they return the system's result and set errno.
 * Invariant  changes that end when the memory is reused are told from lasting ones; unknown changes count as lasting.
 * Threads    any, signal handlers too. */
#ifndef HK_FORWARD_H
#define HK_FORWARD_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

int hk_forward_madvise(void *p, size_t size, int advice);
int hk_forward_mlock(const void *p, size_t size, unsigned flags);
/* A `key` of -1 means that there is no protection key. */
int hk_forward_mprotect(void *p, size_t size, int protection, int key);
long hk_forward_mbind(void *p, size_t size, int mode, const unsigned long *nodes, unsigned long most, unsigned flags);
/* These call the definition that follows HAKMEM's, perhaps another interposer's. The first call looks it up, so it must not come from a signal
 * handler. */
int hk_forward_ioctl(int fd, unsigned long request, void *argument);
int hk_forward_sigaction(int number, const struct sigaction *action, struct sigaction *former);
sighandler_t hk_forward_signal(int number, sighandler_t handler);
/* The program calls these. If a handler of HAKMEM's is installed, the program sees the action that this handler replaced. If the program sets that
 * action again, HAKMEM's handler is installed again. */
int hk_caught_sigaction(int number, const struct sigaction *action, struct sigaction *former);
sighandler_t hk_caught_signal(int number, sighandler_t handler);

_Noreturn void hk_forward_exit(int status);
int hk_forward_prctl(int option, const unsigned long arguments[4]);
int hk_forward_unshare(int flags);

bool hk_advice_lasts(int advice);
/* Returns true if the memory is readable and writable, and has no protection key. */
bool hk_protection_is_ordinary(int protection, int key);
/* Returns true if the request registered a range with userfaultfd, and sets the range. Called after it succeeded, when `argument` is readable. */
bool hk_ioctl_watches_faults(unsigned long request, const void *argument, void **p, size_t *size);
/* Returns true if the option installs a seccomp filter, or is the precondition for one. */
bool hk_prctl_shuts_in(int option);

#endif
