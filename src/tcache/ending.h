/* Ending: the end of a thread's cache: by the thread itself, by another thread that finds its thread gone, or in a fork child.
 * Owns     whether hk_thread_ended is shut.
 * Threads  end: its own. reap: any. fork_child: the only one. */
#ifndef HK_ENDING_H
#define HK_ENDING_H

#include "tcache/layout.h"

/* Flushes everything that the calling thread holds. It has no cache from now on, and gets no other. */
void hk_tcache_end(void);
/* Checks up to `most` caches, and ends those whose threads are gone and could not do it themselves. True if one was ended. */
bool hk_tcaches_reap(unsigned most);
/* Only one thread remains, and may sleep from now on: purges what the others left, if that is much. */
void hk_tcaches_all_ended(void);
/* In a fork child: caches whose threads do not exist there go to the pool. The caller abandons their slabs afterwards. */
void hk_tcaches_fork_child(void);
/* Afterwards, in the survivor's cache, whose bins are believed: unmarks its medium blocks, which were assumed to be live (see slab.h). */
void hk_tcache_fork_child_unmark(struct hk_tcache *cache);

#endif
