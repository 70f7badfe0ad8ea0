/* Passed: calls by which a program changes mappings, or what it is to the system, passed on to the system as the C library would have.
 * Unlike the entries of hk_os they are the program's own: the result is the system's, and errno is set.
 * Invariant  what leaves no trace behind when the memory changes hands is told from what does; what is not known does.
 * Threads    any, signal handlers too. */
#ifndef HK_PASSED_H
#define HK_PASSED_H

#include <stdbool.h>
#include <stddef.h>

int hk_passed_madvise(void *p, size_t size, int advice);
int hk_passed_mlock(const void *p, size_t size, unsigned flags);
/* key: -1 for none. */
int hk_passed_mprotect(void *p, size_t size, int protection, int key);
long hk_passed_mbind(void *p, unsigned long size, int mode, const unsigned long *nodes, unsigned long most,
                     unsigned flags);
/* By way of whoever else has put himself before the C library's. */
int hk_passed_ioctl(int fd, unsigned long request, void *argument);

int hk_passed_prctl(int option, const unsigned long arguments[4]);
int hk_passed_unshare(int flags);

bool hk_advice_lasts(int advice);
/* Readable and writable, with no key of its own. */
bool hk_protection_is_ordinary(int protection, int key);
/* Was this a request to be told of page faults (userfaultfd)? Asked when it has succeeded: then its range can be read. */
bool hk_ioctl_watches_faults(unsigned long request, const void *argument, void **p, size_t *size);

/* Is prctl asked for a filter of system calls, or for what the kernel wants before it gives one? */
bool hk_prctl_shuts_in(int option);

#endif
