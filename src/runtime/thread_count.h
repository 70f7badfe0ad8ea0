/* ThreadCount: how many threads the program has, as far as HAKMEM saw them made (threads.h says which it sees).
 * Invariant  never too high, but where a thread that is counted ends by a bare system call.
 * Threads    any. */
#ifndef HK_THREAD_COUNT_H
#define HK_THREAD_COUNT_H

#include "base/base.h"

/* Are there others beside the calling one? False too where nobody counts. */
bool hk_thread_count_many(void);
void hk_thread_count_more(void);
/* True if that leaves one. */
bool hk_thread_count_less(void);
/* In a fork child: the forking thread is the only one. */
void hk_thread_count_reset(void);

#endif
