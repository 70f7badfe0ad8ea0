/* Forward: passes the program's calls that change mappings, privileges or signal actions on to the system, as the C library would. These functions
 * return the system's result and set errno, because the program called them. The functions of hk_os, which HAKMEM calls for itself, keep errno.
 * Invariant  A change is lasting if it affects more than the speed of the next block at the same addresses. Unknown advice counts as lasting.
 * Threads    Any thread may call these functions, also in a signal handler, unless a comment below says otherwise. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Makes a system call with the arguments of the program's call, for example HK_FORWARD(SYS_unshare, flags). */
#define HK_FORWARD(...) syscall(__VA_ARGS__)
/* The next three functions call the definition that follows HAKMEM's. A signal handler must not make the first call, because it looks the name up. */
int hk_forward_ioctl(int fd, unsigned long request, void *argument);
int hk_forward_sigaction(int number, const struct sigaction *action, struct sigaction *former);
sighandler_t hk_forward_signal(int number, sighandler_t handler);
/* The program's calls of sigaction() and signal() lead here. If HAKMEM has installed a handler, the program sees the action that the handler
 * replaced. If the program installs the replaced action again, HAKMEM's handler is installed instead. */
int hk_caught_sigaction(int number, const struct sigaction *action, struct sigaction *former);
sighandler_t hk_caught_signal(int number, sighandler_t handler);

/* hk_forward_symbol() returns the first definition of a name in the process. hk_forward_next() returns the definition that follows HAKMEM's. They
 * return NULL if there is none, or in a static program. Both functions take the loader's lock. */
void *hk_forward_symbol(const char *name);
void *hk_forward_next(const char *name);
/* Returns hk_forward_next(name), and keeps it in *found. Only a call that finds NULL there takes the loader's lock. */
void *hk_forward_next_once(const char *name, _Atomic(void *) *found);

bool hk_advice_lasts(int advice);
/* Returns true if the protection is that of a new mapping: readable and writable, without a protection key. If `key` is -1, none was passed. */
bool hk_protection_is_ordinary(int protection, int key);
/* Returns true, and sets *p and *size, if the request has registered a range with userfaultfd. Called only if the ioctl has succeeded. */
bool hk_ioctl_watches_faults(unsigned long request, const void *argument, void **p, size_t *size);
/* Returns true if the prctl option installs a seccomp filter, or if it is PR_SET_NO_NEW_PRIVS, which programs set before they install a filter. */
bool hk_prctl_shuts_in(int option);
