/* Liveness: tells whether a thread still runs. Each thread takes a robust mutex, and holds the mutex until the thread ends. The kernel marks the
 * mutex when the thread ends, even if the thread is killed. The mutex costs nothing while the thread runs. The mutex of a thread has these states:
 *
 *   taken, held -> dropped                      if the thread ends normally
 *   taken, held -> lost, reported -> dropped    if the thread ends without running its destructors
 * Invariant  hk_liveness_lost() returns true only if the thread has ended. A process's only thread takes no mutex, because the process ends with it.
 * Threads    The thread itself calls take and renew. The thread that ends the cache calls drop. Any thread may call lost, under a lock that the next
 *            thread also takes before its take. A fork child calls forget. */
#pragma once

#include "base/base.h"
#include <pthread.h>

struct hk_liveness {
    pthread_mutex_t mutex;
    _Atomic bool xtaken;
};

/* Returns true if the process has only this thread. If the C library (musl) cannot tell, asks the system. Returns false if neither can tell. */
bool hk_only_thread(void);

void hk_liveness_take(struct hk_liveness *liveness);
void hk_liveness_drop(struct hk_liveness *liveness);
/* Returns true if the thread has ended while it held the mutex. Only the first such call returns true, and its caller must then drop the mutex. */
bool hk_liveness_lost(struct hk_liveness *liveness);
/* In a fork child, the thread that forked calls renew, because its thread id has changed, and calls forget for threads that the child lacks. */
void hk_liveness_renew(struct hk_liveness *liveness);
void hk_liveness_forget(struct hk_liveness *liveness);
