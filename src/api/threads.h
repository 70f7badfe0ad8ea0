/* Threads: the threads that the program makes, counted, so that HAKMEM knows when it would be the one who brings a second into a
 * process. libhakmem.so stands before pthread_create for it, and before prctl and unshare.
 *
 *   pthread_create: one more --the thread begins--> it is marked --its key destructor, in the last round--> one less
 *
 * Owns       the count. Threads that HAKMEM did not see made (thrd_create, bare clone) are not in it: it is never too high, but where a
 *            marked thread ends by a bare system call.
 * Invariant  counting begins while the process has one thread, or never.
 * Threads    any. */
#ifndef HK_THREADS_H
#define HK_THREADS_H

#include <pthread.h>

#include "base/base.h"

/* Are there others beside the calling one? False too where nobody counts. */
bool hk_threads_are_many(void);
/* A marked thread has come to its end. */
void hk_threads_one_less(void);
/* In a fork child: the forking thread is the only one. */
void hk_threads_fork_child(void);

/* pthread_create for a thread of HAKMEM's own, which is not counted. */
int hk_thread_make(pthread_t *thread, const pthread_attr_t *how, void *(*start)(void *));

#endif
