/* Forward: passes the program's calls that change mappings, privileges or signal actions on to the system, as the C library would. These functions
 * return the system's result and set errno, because they act for the program. The functions of hk_os do neither.
 * Invariant  A change of memory counts as lasting, except if the change is known to end when the memory is reused, or to affect speed only.
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
/* The next three functions call the definition that follows HAKMEM's. Each looks it up in its first call, which must not be in a signal handler. */
int hk_forward_ioctl(int fd, unsigned long request, void *argument);
int hk_forward_sigaction(int number, const struct sigaction *action, struct sigaction *former);
sighandler_t hk_forward_signal(int number, sighandler_t handler);
/* The program's sigaction() and signal() call these functions. If a handler of HAKMEM's is installed, the program sees the action that this handler
 * replaced. If the program sets the replaced action again, HAKMEM's handler is installed again. */
int hk_caught_sigaction(int number, const struct sigaction *action, struct sigaction *former);
sighandler_t hk_caught_signal(int number, sighandler_t handler);

_Noreturn void hk_forward_exit(int status);
int hk_forward_prctl(int option, const unsigned long arguments[4]);
int hk_forward_unshare(int flags);

/* Returns the process's definition of a name, or NULL if there is none or the program is static. hk_forward_next() returns the definition that
 * follows HAKMEM's. The functions take the loader's lock. */
void *hk_forward_symbol(const char *name);
void *hk_forward_next(const char *name);

/* Returns true if the effect of the advice counts as lasting. */
bool hk_advice_lasts(int advice);
/* Returns true if the memory is readable and writable, and has no protection key. */
bool hk_protection_is_ordinary(int protection, int key);
/* Returns true, and sets *p and *size, if the request registered a range with userfaultfd. Precondition: the request has succeeded. */
bool hk_ioctl_watches_faults(unsigned long request, const void *argument, void **p, size_t *size);
/* Returns true if the option installs a seccomp filter, or is the option that must be set before a program may install such a filter. */
bool hk_prctl_shuts_in(int option);

#endif
