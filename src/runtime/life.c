#include "runtime/life.h"

#include <pthread.h>

#include "base/message.h"
#include "decay/wake.h"
#include "os/os.h"
#include "policy/options.h"
#include "runtime/background.h"
#include "runtime/crash.h"
#include "runtime/exit_report.h"
#include "runtime/fork.h"
#include "runtime/learning.h"

/* Key destructors run in up to four rounds. The cache outlives the first, in which the program's own destructors free what
 * the thread had; what they do later is served without a cache. Not later than that: a thread whose first malloc comes from
 * such a destructor begins its cache in the middle of the rounds, and has to end it in what is left of them. If nothing is left of
 * them, others find the cache by its liveness. */
enum { LAST_ROUND = 2, COUNTED = 16 };

static struct {
    _Atomic bool xhooked;
    bool has_key;
    pthread_key_t key;
} life;

/* The value counts the rounds, and says whether the thread is one that the program is known to have made; setting it again asks for
 * another round. */
static void thread_ending(void *value)
{
    uintptr_t round = (uintptr_t)value;
    if (round % COUNTED < LAST_ROUND && pthread_setspecific(life.key, (void *)(round + 1)) == 0)
        return;
    hk_tcache_end();
    if (hk_options.background == HK_BACKGROUND_ON)
        hk_wake_force(); /* it may have been the last */
    if (round >= COUNTED)
        hk_background_thread_ended();
}

bool hk_life_mark_thread(void)
{
    return hk_load_acquire(life.xhooked) && life.has_key && pthread_setspecific(life.key, (void *)(uintptr_t)(COUNTED + 1)) == 0;
}

/* What the C library allocates in here is served: the calling thread has its cache already. */
static void watch_forks_and_threads(void)
{
    if (HK_LIKELY(hk_load_acquire(life.xhooked)))
        return;
    hk_lock(&hk_start_lock);
    if (!hk_load(life.xhooked)) {
        hk_fork_watch();
        life.has_key = pthread_key_create(&life.key, thread_ending) == 0;
        if (!life.has_key)
            hk_message("no thread key to be had: caches of threads that end are lost");
        hk_store_release(life.xhooked, true);
    }
    hk_unlock(&hk_start_lock);
}

HK_NOINLINE struct hk_tcache *hk_life_cache_slow(void)
{
    if (!hk_life_started() || hk_tcache_ended() || !hk_tcache_begin())
        return NULL;
    watch_forks_and_threads();
    if (life.has_key && pthread_getspecific(life.key) == NULL)
        pthread_setspecific(life.key, (void *)1);
    return hk_tcache_self();
}

/* glibc passes main's arguments to constructors; where the library comes first of all (initfirst), nobody else knows yet
 * where the environment is. Other C libraries pass nothing, but know. */
__attribute__((constructor)) static void process_begins(int argc, char **argv, char **variables)
{
    (void)argc;
    (void)argv;
    hk_os.environment_begins(variables);
    (void)hk_life_cache();
    hk_crash_begin();
}

__attribute__((destructor)) static void process_ends(void)
{
    hk_learning_end();
    hk_exit_report();
}
