/* Life: the one conductor: when HAKMEM starts, when a thread gets and loses its cache, what happens around fork and at exit.
 * Owns     the order of starting, the thread key, the fork handlers.
 * Threads  any. */
#ifndef HK_LIFE_H
#define HK_LIFE_H

#include "front/cache.h"

/* True until the loader has relocated this library and set up the thread's storage: nothing but the dawn works. */
bool hk_life_dawning(void);

/* True once the rooms below are ready; starts them if need be. False if memory is refused: the next call tries again. */
bool hk_life_started(void);

/* The calling thread's cache, begun if need be; NULL if it ended, or memory is refused. */
struct hk_cache *hk_life_cache(void);

/* The calling thread is one that is counted (threads.h); false if that cannot be. */
bool hk_life_mark_thread(void);

#endif
