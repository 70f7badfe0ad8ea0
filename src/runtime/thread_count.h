/* ThreadCount: the number of the program's threads whose creation HAKMEM has seen (threads.h).
 * Invariant  never too high, unless a counted thread ends by a bare system call.
 * Threads    any. */
#ifndef HK_THREAD_COUNT_H
#define HK_THREAD_COUNT_H

#include "base/base.h"

/* True if the program has more than one thread. False also if threads are not counted. */
bool hk_thread_count_many(void);
void hk_thread_count_more(void);
/* True if one thread remains. */
bool hk_thread_count_less(void);
/* In a fork child: the forking thread is the only one. */
void hk_thread_count_reset(void);

#endif
