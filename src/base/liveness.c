#include "base/liveness.h"

#include <errno.h>

extern char __libc_single_threaded __attribute__((weak));

/* Made anew each time: what a fork child, or a thread that ended without a word, left of the old one is not looked at. Tried, not
 * locked: it is free, and who checks the order of locks (a thread sanitizer) expects that a lock may wait. */
static void take_anew(struct hk_liveness *line)
{
    pthread_mutexattr_t robust;
    pthread_mutexattr_init(&robust);
    pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&line->mutex, &robust);
    pthread_mutexattr_destroy(&robust);
    hk_store_release(line->xtaken, pthread_mutex_trylock(&line->mutex) == 0);
}

void hk_liveness_take(struct hk_liveness *line)
{
    if (&__libc_single_threaded == NULL || !__libc_single_threaded)
        take_anew(line);
}

void hk_liveness_drop(struct hk_liveness *line)
{
    if (!hk_load(line->xtaken))
        return;
    hk_store(line->xtaken, false);
    pthread_mutex_unlock(&line->mutex);
}

bool hk_liveness_lost(struct hk_liveness *line)
{
    return hk_load_acquire(line->xtaken) && pthread_mutex_trylock(&line->mutex) == EOWNERDEAD &&
           pthread_mutex_consistent(&line->mutex) == 0;
}

void hk_liveness_renew(struct hk_liveness *line)
{
    if (hk_load(line->xtaken))
        take_anew(line);
}

void hk_liveness_forget(struct hk_liveness *line) { hk_store(line->xtaken, false); }
