/* Liveness: tells whether the thread that took the mutex still runs. A robust mutex that its thread never
 * releases: the kernel marks it when the thread ends, in any way. Costs nothing while the thread runs.
 *
 *   take -> held -> drop                        the thread ends normally
 *            \-> lost, reported once -> drop    the thread ended without its destructors
 *
 * Invariant  lost is true only for a thread that has ended. The only thread of a process takes none: the process ends with it.
 * Threads    take, renew: the thread itself. drop, lost: any, one at a time (the caller's lock). forget: a fork child's only thread. */
#ifndef HK_LIVENESS_H
#define HK_LIVENESS_H

#include "base/base.h"
#include <pthread.h>

struct hk_liveness {
    pthread_mutex_t mutex;
    _Atomic bool xtaken;
};

/* Returns true if this is the only thread: asks the C library, or the system if the C library does not know (musl). False if neither knows. */
bool hk_only_thread(void);

void hk_liveness_take(struct hk_liveness *liveness);
void hk_liveness_drop(struct hk_liveness *liveness);
/* Returns true once if the thread has ended; the caller must then drop the mutex. */
bool hk_liveness_lost(struct hk_liveness *liveness);
/* In a fork child. renew: for the thread that forked, whose thread id has changed. forget: for threads that the child lacks. */
void hk_liveness_renew(struct hk_liveness *liveness);
void hk_liveness_forget(struct hk_liveness *liveness);

#endif
