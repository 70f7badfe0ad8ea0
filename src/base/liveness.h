/* Liveness: tells whether a thread still runs. Each thread takes a robust mutex and holds the mutex until the thread ends. The kernel marks the mutex
 * when the thread ends, even if the thread is killed. This costs nothing while the thread runs.
 *
 *   take -> held -> drop                        the thread ends normally
 *            \-> lost, reported once -> drop    the thread ended without its destructors
 *
 * Invariant  hk_liveness_lost() returns true only for a thread that has ended. The only thread of a process takes no mutex, because the process ends
 *            with the thread.
 * Threads    The thread itself calls take and renew. Any thread may call drop and lost, under a lock of the caller's. A fork child calls forget. */
#ifndef HK_LIVENESS_H
#define HK_LIVENESS_H

#include "base/base.h"
#include <pthread.h>

struct hk_liveness {
    pthread_mutex_t mutex;
    _Atomic bool xtaken;
};

/* Returns true if this is the process's only thread. If the C library (musl) cannot tell, asks the system. Returns false if neither can tell. */
bool hk_only_thread(void);

void hk_liveness_take(struct hk_liveness *liveness);
void hk_liveness_drop(struct hk_liveness *liveness);
/* Returns true if the thread has ended while it held the mutex. Only the first such call returns true, and its caller must then drop the mutex. */
bool hk_liveness_lost(struct hk_liveness *liveness);
/* A fork child calls renew for the thread that forked, because the thread id has changed. It calls forget for the threads that the child lacks. */
void hk_liveness_renew(struct hk_liveness *liveness);
void hk_liveness_forget(struct hk_liveness *liveness);

#endif
