/* Lifecycle: starts HAKMEM step by step at the first call after the loader has relocated the library. If a step fails, the next call repeats it.
 * Gives a thread its cache at the thread's first miss, and ends the cache when the thread ends.
 *
 *   bootstrapping --first call after relocation--> options and profile -> page map -> lists, locks and gate --> started
 *
 * Owns     This file owns the steps of the start, and the thread key.
 * Threads  Any thread may call the functions. */
#pragma once

#include "tcache/tcache.h"

/* Returns true until the loader has relocated this library and set up thread-local storage. Until then, only the bootstrap arena serves calls. */
bool hk_is_bootstrapping(void);

extern _Atomic bool hk_start_done;
bool hk_start(void);
HK_INLINE bool hk_started(void) { return HK_LIKELY(hk_load_acquire(hk_start_done)) || hk_start(); }
/* Starts HAKMEM if possible. Returns true if the loader has relocated this library, so that thread-local storage and process_malloc are usable. */
HK_INLINE bool hk_relocated(void) { return hk_started() || !hk_is_bootstrapping(); }

/* A thread holds this lock while it runs steps of the start, and while it forks. */
extern struct hk_lock hk_start_lock;

HK_PROCESS(void *, process_malloc, (size_t size), malloc, hak_malloc)
HK_PROCESS(void, process_free, (void *block), free, hak_free)
/* HK_IS_OURS is true if the name `function` leads to HAKMEM's function `own` in this process. */
#define HK_IS_OURS(function, own) (HK_ADDRESS_OF(function) == (own))

/* Returns true if the process's malloc is HAKMEM's. It is not if the program, or a library that is searched before HAKMEM, defines malloc. */
bool hk_process_is_served(void);
enum { HK_MALLOPT_WHO_SERVES = 0x48414b4d, HK_MALLOPT_HAKMEM = 0x4b4d };
/* Returns the answer of mallopt if another copy of HAKMEM asks which allocator serves the process. Returns 0 if this copy itself is asking. */
int hk_answer_who_serves(void);

/* Returns the calling thread's cache, and begins it if necessary. Returns NULL if HAKMEM cannot start, the cache has ended, or memory is refused. */
struct hk_tcache *hk_tcache_get_slow(void);
HK_INLINE struct hk_tcache *hk_tcache_get(void)
{
    struct hk_tcache *cache = hk_started() ? hk_tcache_self() : NULL;
    return HK_LIKELY(cache != NULL) ? cache : hk_tcache_get_slow();
}

/* Returns true if the guard is on. First starts HAKMEM if necessary, because the start turns the guard on, and the guard must also see the first
 * block. If the mode is plain, the guard is off, and the function costs one compare. */
HK_INLINE bool hk_guard_is_on(void)
{
    return HK_UNLIKELY(!hk_mode_is_plain()) && hk_started() && hk_mode_has(HK_MODE_GUARD);
}

/* Writes the files that the options ask for at exit. Called before the process ends without running destructors. */
void hk_end_at_once(void);

/* Marks the calling thread as counted (threads.c). Returns false if this fails. */
bool hk_mark_thread(void);
