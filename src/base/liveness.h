/* Liveness: tells whether the thread that took the mutex still runs. The thread holds a robust mutex
 * until it ends, and the kernel marks the mutex when the thread ends, in any way. This costs nothing while the thread runs.
 *
 *   take -> held -> drop                        the thread ends normally
 *            \-> lost, reported once -> drop    the thread ended without its destructors
 *
 * Invariant  lost is true only for a thread that has ended. The only thread of a process takes no mutex, because the process ends with the thread.
 * Threads    take, renew: the thread itself. drop, lost: any, one at a time (the caller's lock). forget: a fork child's only thread. */
#ifndef HK_LIVENESS_H
#define HK_LIVENESS_H

#include "base/base.h"
#include <pthread.h>

struct hk_liveness {
    pthread_mutex_t mutex;
    _Atomic bool xtaken;
};

/* Returns true if this is the process's only thread. Asks the C library, or the system if the library (musl) does not know. False: neither knows. */
bool hk_only_thread(void);

void hk_liveness_take(struct hk_liveness *liveness);
void hk_liveness_drop(struct hk_liveness *liveness);
/* Returns true once if the thread has ended. The caller must then drop the mutex. */
bool hk_liveness_lost(struct hk_liveness *liveness);
/* A fork child calls these: renew for the thread that forked, because its thread id has changed, forget for the threads that the child lacks. */
void hk_liveness_renew(struct hk_liveness *liveness);
void hk_liveness_forget(struct hk_liveness *liveness);

#endif
