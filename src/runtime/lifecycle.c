/* Begins and ends the caches of threads by a thread key, and defines the library's constructor and destructor. */
#include "runtime/lifecycle.h"

#include <pthread.h>

#include "base/liveness.h"
#include "base/message.h"
#include "decay/background_state.h"
#include "os/os.h"
#include "policy/options.h"
#include "runtime/background.h"
#include "runtime/term.h"
#include "runtime/exit_report.h"
#include "runtime/fork.h"
#include "runtime/learning.h"
#include "runtime/named_file.h"
#include "runtime/served.h"
#include "runtime/thread_count.h"

/* Key destructors run in up to four rounds. The cache outlives the first round, in which the program's destructors free
 * the thread's objects; later calls are served without a cache. It ends no later: a thread whose first malloc comes
 * from such a destructor begins its cache between two rounds and must end it in the remaining ones. If no round
 * remains, other threads find the cache by its liveness. */
enum { LAST_ROUND = 2, COUNTED = 16 };

static struct {
    _Atomic bool xhooked;
    bool has_key;
    pthread_key_t key;
    int ended_as; /* the process that has written its last report */
} life HK_EACH_PROCESS_DATA;

/* `value` is the number of the round, plus COUNTED if the thread is counted. Setting it again requests another
 * round. */
static void thread_ending(void *value)
{
    uintptr_t round = (uintptr_t)value;
    if (round % COUNTED < LAST_ROUND && pthread_setspecific(life.key, (void *)(round + 1)) == 0)
        return;
    hk_tcache_end();
    if (hk_options.background == HK_BACKGROUND_ON)
        hk_background_force(); /* this may have been the last thread */
    bool counted = round >= COUNTED;
    if (counted ? hk_background_thread_ended() : !hk_thread_count_many() && hk_tcaches_alive() <= 1)
        hk_tcaches_all_ended();
}

bool hk_mark_thread(void)
{
    return hk_load_acquire(life.xhooked) && life.has_key &&
           pthread_setspecific(life.key, (void *)(uintptr_t)(COUNTED + 1)) == 0;
}

HK_EACH_PROCESS static void watch(void)
{
    hk_fork_watch();
    life.has_key = pthread_key_create(&life.key, thread_ending) == 0;
    if (!life.has_key)
        hk_message(HK_TEXT_thread_key);
}

/* The C library may allocate in here: the calling thread has its cache already. */
static void watch_forks_and_threads(void)
{
    if (HK_LIKELY(hk_load_acquire(life.xhooked)))
        return;
    hk_lock(&hk_start_lock);
    if (!hk_load(life.xhooked)) {
        watch();
        hk_store_release(life.xhooked, true);
    }
    hk_unlock(&hk_start_lock);
}

HK_NOINLINE struct hk_tcache *hk_tcache_get_slow(void)
{
    if (!hk_started() || hk_tcache_ended() || !hk_tcache_begin())
        return NULL;
    hk_tcache_self()->system_thread = hk_reports_wanted() ? (uint32_t)hk_os.thread_id() : 0;
    watch_forks_and_threads();
    if (life.has_key && pthread_getspecific(life.key) == NULL)
        pthread_setspecific(life.key, (void *)1);
    return hk_tcache_self();
}

/* HAKMEM starts at the first call: a process that never allocates pays for no heap. Only what must come before all code of the program
 * is done here. The C library may allocate while it registers the handlers, and must not find them missing then. */
HK_EACH_PROCESS static void await_first_call(void)
{
    hk_background_settle();
    hk_store_release(life.xhooked, true);
    watch();
}

/* glibc passes main's arguments to constructors. In a library that is initialized first (initfirst), they are the only
 * way to the environment. Other C libraries pass nothing, but `environ` is set already. */
__attribute__((constructor)) HK_EACH_PROCESS static void process_begins(int argc, char **argv, char **variables)
{
    (void)argc;
    (void)argv;
    hk_stderr_begin();
    hk_os.environment_begins(variables);
    if (HK_UNLIKELY(hk_process_is_served_by_another()))
        hk_options_ignore();
    if (!hk_options_given() && !hk_load(life.xhooked) && hk_only_thread()) {
        await_first_call();
        return;
    }
    (void)hk_tcache_get();
    hk_crash_begin();
    hk_term_begin();
    if (hk_options.guard_sample != 0)
        (void)hk_os.catch_faults(NULL);
}

/* Bins of other threads are left alone: these threads may still run. The second drain checks blocks of the outbox whose slabs have become
 * this thread's. */
static HK_COLD void check_at_exit(void)
{
    struct hk_tcache *cache = hk_tcache_self();
    (void)hk_tcaches_reap(UINT32_MAX);
    if (cache == NULL)
        return;
    hk_tcache_flush(cache);
    hk_drain_all(cache);
}

__attribute__((destructor)) HK_EACH_PROCESS static void process_ends(void)
{
    if (hk_options.safe_free == HK_SAFE_FREE_EXIT && hk_started())
        check_at_exit();
    if (hk_named_files_wanted()) {
        hk_learning_end();
        hk_exit_report();
    }
    life.ended_as = hk_background_home();
}

/* A vfork child, which shares its parent's memory, is not the process that the reports are of. */
void hk_end_at_once(void)
{
    if (!hk_load_acquire(hk_start_done) || !hk_named_files_wanted() || life.ended_as == hk_background_home())
        return;
    if (hk_background_home() == hk_os.process_id() && hk_report_may_take_locks())
        process_ends();
}
