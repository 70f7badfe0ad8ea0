/* Threads: counts the threads that the program creates, so that HAKMEM never adds a second thread to a process that has one.
 * libhakmem.so interposes pthread_create for it, and prctl and unshare.
 *
 *   pthread_create: + 1 --the thread begins--> marked as counted --its key destructor, in the last round--> - 1
 *
 * Owns       which threads are counted (thread_count.h). Threads that are created otherwise (thrd_create, bare clone) are not.
 * Invariant  counting begins while the process has one thread, or never.
 * Threads    any. */
#ifndef HK_THREADS_H
#define HK_THREADS_H

#include "runtime/background.h"

/* pthread_create for a thread of HAKMEM's own, which is not counted. */
hk_thread_maker hk_thread_make;

#endif
