/* Lifeline: tells whether the thread that took it is still there. A mutex that its thread never gives up, and that the kernel
 * marks when the thread ends (a robust one): however it ends, and at no cost while it lives.
 *
 *   take -> held -> drop                        the thread ends as it should
 *            \-> torn, seen once -> drop        it has gone without a word
 *
 * Invariant  torn is true for a thread that is gone, never for one that runs. A thread that is alone in its process takes
 *            none: its end is the end of all.
 * Threads    take, renew: the thread. drop, torn: any, one at a time (the caller's lock). forget: a fork child's only thread. */
#ifndef HK_LIVENESS_H
#define HK_LIVENESS_H

#include <pthread.h>

#include "base/base.h"

struct hk_liveness {
    pthread_mutex_t mutex;
    _Atomic bool xtaken;
};

void hk_liveness_take(struct hk_liveness *line);
void hk_liveness_drop(struct hk_liveness *line);
/* True once, if its thread is gone: it is up to the caller then to drop it. */
bool hk_liveness_lost(struct hk_liveness *line);
/* In a fork child: of the thread that forked, whose number is another one now; of threads that the child does not have. */
void hk_liveness_renew(struct hk_liveness *line);
void hk_liveness_forget(struct hk_liveness *line);

#endif
