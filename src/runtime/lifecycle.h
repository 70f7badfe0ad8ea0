/* Lifecycle: starts HAKMEM at its first call after relocation, step by step. The next call repeats a step that has failed. Gives a thread its cache
 * at the thread's first miss, and ends the cache when the thread ends.
 *
 *   bootstrapping (the loader relocates) --first call--> options and profile -> page map -> lists and locks, gate --> started
 *
 * Owns     This file owns the steps of the start, and the thread key.
 * Threads  Any thread may call the functions. */
#ifndef HK_LIFECYCLE_H
#define HK_LIFECYCLE_H

#include "tcache/tcache.h"

/* Returns true until the loader has relocated this library and set up thread-local storage. Until then, only the bootstrap arena works. */
bool hk_is_bootstrapping(void);

/* Set to true when all steps of the start have been done. */
extern _Atomic bool hk_start_done;
bool hk_start(void);
HK_INLINE bool hk_started(void) { return HK_LIKELY(hk_load_acquire(hk_start_done)) || hk_start(); }

/* A thread holds this lock while it runs startup steps or forks. */
extern struct hk_lock hk_start_lock;

HK_PROCESS(void *, process_malloc, (size_t size), malloc, hak_malloc)
HK_PROCESS(void, process_free, (void *block), free, hak_free)
/* HK_IS_OURS is true if the process uses HAKMEM's function `own` under this name. */
#define HK_IS_OURS(function, own)                                                                                      \
    (__extension__({                                                                                                   \
        __typeof__(&(own)) serves = (function);                                                                        \
        HK_FORGET(serves);                                                                                             \
        serves == (own);                                                                                               \
    }))

/* Returns true if the process's malloc is HAKMEM's. The program, or a library before HAKMEM, may define its own malloc. */
bool hk_process_is_served(void);
/* Returns true if the process's malloc is that of another copy of HAKMEM. That happens if a program is linked with HAKMEM and HAKMEM is preloaded
 * too. Asks the other copy by mallopt, which each allocator has, and allocates nothing. Called after the loader has relocated the program. */
bool hk_process_is_served_by_another(void);
enum { HK_MALLOPT_WHO_SERVES = 0x48414b4d, HK_MALLOPT_HAKMEM = 0x4b4d };
/* Returns the answer to the question of hk_process_is_served_by_another(). Returns 0 if this copy of HAKMEM is the one that asks. */
int hk_answer_who_serves(void);

/* Returns the calling thread's cache, and begins it if necessary. Returns NULL if the cache has ended or memory is refused. */
struct hk_tcache *hk_tcache_get_slow(void);
HK_INLINE struct hk_tcache *hk_tcache_get(void)
{
    struct hk_tcache *cache = hk_started() ? hk_tcache_self() : NULL;
    return HK_LIKELY(cache != NULL) ? cache : hk_tcache_get_slow();
}

/* Returns true if the guard is on. Starts HAKMEM if necessary, because the start turns the guard on, and the guard must see the block of the first
 * call. If the mode is plain, the guard is off, and the function costs only one compare. */
HK_INLINE bool hk_guard_is_on(void)
{
    return HK_UNLIKELY(!hk_mode_is_plain()) && hk_started() && hk_mode_has(HK_MODE_GUARD);
}

/* Writes the files that the options ask for at exit. Called before a process ends without its destructors. */
void hk_end_at_once(void);

/* Marks the calling thread as counted (threads.c). Returns false if that is impossible. */
bool hk_mark_thread(void);

#endif
