/* Forward: passes the program's calls that change mappings, privileges or signal actions on to the system, as the C library would. These functions
 * act for the program, so unlike the functions of hk_os, they return the system's result and set errno.
 * Invariant  A change of memory counts as lasting unless it is known to end when the memory is reused.
 * Threads    Any thread may call these functions, also in a signal handler, unless stated otherwise. */
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
/* The next functions call the definition that follows HAKMEM's. Their first call looks it up, so it must not come from a signal handler. */
int hk_forward_ioctl(int fd, unsigned long request, void *argument);
int hk_forward_sigaction(int number, const struct sigaction *action, struct sigaction *former);
sighandler_t hk_forward_signal(int number, sighandler_t handler);
/* The program's sigaction() and signal() call these. If a handler of HAKMEM's is installed, the program sees the action that this handler replaced.
 * If the program sets that action again, HAKMEM's handler is installed again. */
int hk_caught_sigaction(int number, const struct sigaction *action, struct sigaction *former);
sighandler_t hk_caught_signal(int number, sighandler_t handler);

_Noreturn void hk_forward_exit(int status);
int hk_forward_prctl(int option, const unsigned long arguments[4]);
int hk_forward_unshare(int flags);

bool hk_advice_lasts(int advice);
/* Returns true if the memory is readable and writable, and has no protection key. */
bool hk_protection_is_ordinary(int protection, int key);
/* Returns true if the request, which has succeeded, registered a range with userfaultfd, and sets the range. */
bool hk_ioctl_watches_faults(unsigned long request, const void *argument, void **p, size_t *size);
/* Returns true if the option installs a seccomp filter, or is required before one can be installed. */
bool hk_prctl_shuts_in(int option);

#endif
