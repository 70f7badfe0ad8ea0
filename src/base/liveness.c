/* Asks a robust mutex whether the thread that holds it still runs. */
#include "base/liveness.h"
#include <errno.h>
#include "os/os.h"

extern char __libc_single_threaded __attribute__((weak));

HK_EACH_PROCESS bool hk_only_thread(void)
{
    return &__libc_single_threaded != NULL ? __libc_single_threaded : hk_os_has_one_thread();
}

/* Initializes the mutex each time, because a crashed thread or a fork may have left the mutex in any state. Takes the mutex by trylock, which always
 * succeeds on a new mutex. The thread sanitizer would complain about pthread_mutex_lock, because that function may wait. */
static void init_and_take(struct hk_liveness *liveness)
{
    pthread_mutexattr_t robust;
    pthread_mutexattr_init(&robust);
    pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&liveness->mutex, &robust);
    pthread_mutexattr_destroy(&robust);
    hk_store_release(liveness->xtaken, pthread_mutex_trylock(&liveness->mutex) == 0);
}

void hk_liveness_take(struct hk_liveness *liveness)
{
    if (!hk_only_thread())
        init_and_take(liveness);
}

void hk_liveness_drop(struct hk_liveness *liveness)
{
    if (!hk_load(liveness->xtaken))
        return;
    hk_store(liveness->xtaken, false);
    pthread_mutex_unlock(&liveness->mutex);
}

/* The thread may drop the mutex after xtaken was loaded. The trylock then takes the free mutex. The mutex must be released again, because the next
 * thread of the cache initializes it, and a mutex that is initialized while it is held breaks the list of robust mutexes of its holder. */
bool hk_liveness_lost(struct hk_liveness *liveness)
{
    if (!hk_load_acquire(liveness->xtaken))
        return false;
    int result = pthread_mutex_trylock(&liveness->mutex);
    if (result == 0)
        pthread_mutex_unlock(&liveness->mutex);
    return result == EOWNERDEAD && pthread_mutex_consistent(&liveness->mutex) == 0;
}

void hk_liveness_renew(struct hk_liveness *liveness)
{
    if (hk_load(liveness->xtaken))
        init_and_take(liveness);
}

void hk_liveness_forget(struct hk_liveness *liveness) { hk_store(liveness->xtaken, false); }
