/* Threads: the threads that the program makes, counted, so that HAKMEM knows when it would be the one who brings a second into a
 * process. libhakmem.so stands before pthread_create for it, and before prctl and unshare.
 *
 *   pthread_create: one more --the thread begins--> it is marked --its key destructor, in the last round--> one less
 *
 * Owns       which threads are counted (thread_count.h). Threads that HAKMEM did not see made (thrd_create, bare clone) are not in it: it is never too high, but where a
 *            marked thread ends by a bare system call.
 * Invariant  counting begins while the process has one thread, or never.
 * Threads    any. */
#ifndef HK_THREADS_H
#define HK_THREADS_H

#include "runtime/background.h"

/* pthread_create for a thread of HAKMEM's own, which is not counted. */
hk_thread_maker hk_thread_make;

#endif
