#include "api/life.h"

#include <pthread.h>

#include "api/background.h"
#include "api/crash.h"
#include "api/exit_report.h"
#include "api/learning.h"
#include "api/threads.h"
#include "base/lock.h"
#include "base/say.h"
#include "count/decisions.h"
#include "front/pool.h"
#include "guard/sites.h"
#include "guard/watch.h"
#include "os/os.h"
#include "policy/policy.h"
#include "policy/profile.h"
#include "slab/registry.h"
#include "span/map.h"
#include "span/meta.h"
#include "span/runs.h"
#include "span/thp.h"
#include "tiers/bigcache.h"
#include "tiers/wake.h"

/* Key destructors run in up to four rounds. The cache outlives the first, in which the program's own destructors free what
 * the thread had; what they do later is served without a cache. Not later than that: a thread whose first malloc comes from
 * such a destructor begins its cache in the middle of the rounds, and has to end it in what is left of them. If nothing is left of
 * them, others find the cache by its lifeline. */
enum { LAST_ROUND = 2, COUNTED = 16 };

static struct {
    struct hk_lock lock;
    unsigned steps; /* of starting, done so far */
    _Atomic bool xstarted;
    _Atomic bool xwatching;
    bool has_key;
    pthread_key_t key;
} life = {.lock = HK_LOCK_INIT(HK_RANK_START)};

/* Before relocation this holds what the file holds, not where it is. */
static void *volatile own_address = (void *)&own_address;

bool hk_life_dawning(void)
{
    /* Once over it stays over; hk_self is set up last of all. */
    return (uintptr_t)own_address != (uintptr_t)&own_address || !hk_os.has_thread_pointer() || hk_self == NULL;
}

static bool step_options(void)
{
    hk_stderr_begin();
    hk_options_read(hk_profile_apply);
    if (hk_reports_wanted())
        hk_options.background = HK_BACKGROUND_ON;
    if (hk_options.background == HK_BACKGROUND_ON)
        hk_shelves_share();
    hk_policy_begin();
    return true;
}

static void init_locks_and_lists(void)
{
    hk_lock_register(HK_RANK_START, &life.lock);
    hk_meta_init();
    hk_slabs_init();
    hk_owners_init();
    hk_thp_init();
    hk_runs_init();
    hk_big_init();
    hk_giveback_init();
    hk_pool_init();
    hk_sites_init();
}

static bool step_lists(void)
{
    init_locks_and_lists();
    hk_background_reset();
    hk_learning_begin();
    size_t unseen_to = hk_watch_begin();
    hk_gate_open(unseen_to);
    if (unseen_to != HK_ALL_HIT)
        hk_watch_open();
    return true;
}

static bool start_locked(void)
{
    static bool (*const steps[])(void) = {step_options, hk_map_init, step_lists};
    while (life.steps < sizeof steps / sizeof steps[0]) {
        if (!steps[life.steps]())
            return false;
        life.steps++;
    }
    return true;
}

bool hk_life_started(void)
{
    if (HK_LIKELY(hk_load_acquire(life.xstarted)))
        return true;
    if (hk_life_dawning())
        return false;
    hk_lock(&life.lock);
    bool started = start_locked();
    hk_store_release(life.xstarted, started);
    hk_unlock(&life.lock);
    return started;
}

/* glibc's fork takes the lock of all streams after the prepare handlers have run, and who holds that one may be waiting for
 * a stream whose holder is waiting for one of ours: it has to come first. It may be taken twice. */
extern void _IO_list_lock(void) __attribute__((weak));
extern void _IO_list_unlock(void) __attribute__((weak));

/* Where there is one thread, it is here: no lock is held, nothing is under way, and every page left alone is one that
 * neither process has to copy. */
extern char __libc_single_threaded __attribute__((weak));
static bool alone_at_fork;

static void fork_prepare(void)
{
    alone_at_fork = &__libc_single_threaded != NULL && __libc_single_threaded;
    if (alone_at_fork)
        return;
    if (_IO_list_lock != NULL)
        _IO_list_lock();
    hk_registry_fork_prepare();
    hk_locks_take_all();
}

static void fork_parent(void)
{
    HK_COUNT(forks, 1);
    if (alone_at_fork)
        return;
    hk_locks_drop_all();
    if (_IO_list_unlock != NULL)
        _IO_list_unlock();
}

/* What other threads were in the middle of. */
static void fork_child_others(struct hk_owner *self)
{
    hk_watch_fork_child();
    hk_meta_fork_child();
    hk_owners_fork_child(self);
    hk_caches_fork_child();
    hk_decisions_forget();
    hk_registry_orphan_rest(self);
}

static void fork_child(void)
{
    struct hk_cache *cache = hk_cache_self();
    HK_COUNT(forks, 1);
    hk_background_reset();
    hk_threads_fork_child();
    if (cache != NULL)
        hk_lifeline_renew(&cache->lifeline);
    if (alone_at_fork)
        return;
    hk_locks_reset_all();
    fork_child_others(cache != NULL ? &cache->owner : NULL);
}

/* The value counts the rounds, and says whether the thread is one that the program is known to have made; setting it again asks for
 * another round. */
static void thread_ending(void *value)
{
    uintptr_t round = (uintptr_t)value;
    if (round % COUNTED < LAST_ROUND && pthread_setspecific(life.key, (void *)(round + 1)) == 0)
        return;
    hk_cache_end();
    if (hk_options.background == HK_BACKGROUND_ON)
        hk_wake_rouse(); /* it may have been the last */
    if (round >= COUNTED)
        hk_threads_one_less();
}

bool hk_life_mark_thread(void)
{
    return hk_load_acquire(life.xwatching) && life.has_key && pthread_setspecific(life.key, (void *)(uintptr_t)(COUNTED + 1)) == 0;
}

/* What the C library allocates in here is served: the calling thread has its cache already. */
static void watch_forks_and_threads(void)
{
    if (HK_LIKELY(hk_load_acquire(life.xwatching)))
        return;
    hk_lock(&life.lock);
    if (!hk_load(life.xwatching)) {
        pthread_atfork(fork_prepare, fork_parent, fork_child);
        life.has_key = pthread_key_create(&life.key, thread_ending) == 0;
        if (!life.has_key)
            hk_say("no thread key to be had: caches of threads that end are lost");
        hk_store_release(life.xwatching, true);
    }
    hk_unlock(&life.lock);
}

struct hk_cache *hk_life_cache(void)
{
    if (HK_UNLIKELY(!hk_life_started()))
        return NULL;
    struct hk_cache *cache = hk_cache_self();
    if (HK_LIKELY(cache != NULL))
        return cache;
    if (hk_cache_ended() || !hk_cache_begin())
        return NULL;
    watch_forks_and_threads();
    if (life.has_key && pthread_getspecific(life.key) == NULL)
        pthread_setspecific(life.key, (void *)1);
    return hk_cache_self();
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
