/* Runs the steps of the start, ends caches in the destructor of a thread key, and makes fork children consistent. */
#include "runtime/lifecycle.h"
#include "count/decisions.h"
#include "decay/background_state.h"
#include "prof/hooks.h"
#include "runtime/background.h"
#include "runtime/exit_report.h"
#include "runtime/learning.h"
#include "runtime/named_file.h"
#include "os/forward.h"
#include "slab/abandoned.h"
#include "span/meta.h"
#include "guard/sampled.h"
#include "guard/guard.h"
#include "span/page_heap.h"
#include "hakmem.h"

struct hk_lock hk_start_lock = HK_LOCK_INIT(HK_RANK_START);

/* Each process reads this flag first, and then writes it. In .bss these accesses would cost two page faults, so the flag lies elsewhere. */
static bool options_are_read HK_EACH_PROCESS_DATA;
_Atomic bool hk_start_done HK_EACH_PROCESS_DATA;

/* The loader stores the address of this variable here when it relocates the library. Before that, the variable has another value. */
static void *volatile own_address = (void *)&own_address;

bool hk_is_bootstrapping(void)
{
    /* The loader initializes hk_self last. Once it has done so, the result stays false. */
    return (uintptr_t)own_address != (uintptr_t)&own_address || !hk_os_has_thread_pointer() || hk_self == NULL;
}

static void step_options(void)
{
    hk_options_read();
    hk_named_files_begin();
    if (hk_reports_wanted() || (hk_options.guard_sample != 0 && hk_options.background == HK_BACKGROUND_AUTO))
        hk_options.background = HK_BACKGROUND_ON;
    if (hk_options.background == HK_BACKGROUND_ON)
        hk_slab_lists_shared = true;
    hk_policy_begin();
    hk_classes_begin();
    options_are_read = true;
}

/* hk_start() is cold, and clang optimizes loops of cold functions for size. Each process runs these loops, so they have their own function. */
static HK_NOINLINE void step_lists(void)
{
    hk_track_report_begin();
    hk_guard_begin();
    hk_meta_init();
    hk_descriptors_init();
    hk_owners_init();
    hk_page_heap_init();
    hk_large_init();
    hk_heap_state_init();
    hk_pool_init();
    hk_sites_init();
    hk_slots_init();
    if (hk_background_home == 0)
        hk_background_home = hk_os.process_id();
    hk_background_reset();
    hk_learning_begin();
    size_t hits_to = hk_hooks_begin();
    hk_cacheless_shut(&hk_thread_unborn);
    if (hk_options.count == HK_COUNT_ON || (hk_options.count == HK_COUNT_AUTO && hk_options.report != NULL))
        hk_gate_shut(HK_SHUT_TO_COUNT);
    hk_gate_open(hk_guard.on ? 0 : hits_to);
    if (hits_to != HK_ALL_HIT) {
        hk_guard.small = 0; /* each guarded call goes to the hooks until the process ends */
        hk_guard.frees_plainly = false;
        hk_mode_set(HK_MODE_HOOKS);
    }
    hk_store_release(hk_start_done, true);
}

HK_COLD bool hk_start(void)
{
    if (hk_is_bootstrapping())
        return false;
    hk_lock(&hk_start_lock);
    if (!options_are_read)
        step_options();
    if (!hk_load(hk_start_done) && hk_page_map_init())
        step_lists();
    hk_unlock(&hk_start_lock);
    return hk_load(hk_start_done);
}

static _Atomic bool xasking;

int hk_answer_who_serves(void) { return hk_load(xasking) ? 0 : HK_MALLOPT_HAKMEM; }

/* Returns true if the process's malloc is that of another copy of HAKMEM. This happens if a program is linked with HAKMEM, and HAKMEM is also
 * preloaded. Asks the other copy through mallopt, which each allocator has. Allocates nothing. Called after the loader has relocated the program. */
HK_EACH_PROCESS static bool is_served_by_another(void)
{
    if (HK_IS_OURS(process_malloc, hak_malloc))
        return false;
    int (*mallopt_of_process)(int, int) = (int (*)(int, int))hk_forward_symbol("mallopt");
    hk_store(xasking, true);
    bool answered = mallopt_of_process != NULL && mallopt_of_process(HK_MALLOPT_WHO_SERVES, 0) == HK_MALLOPT_HAKMEM;
    hk_store(xasking, false);
    return answered;
}

bool hk_process_is_served(void)
{
    static _Atomic unsigned xanswer;
    enum { NOT_ASKED, YES, NO };
    unsigned answer = hk_load(xanswer);
    if (answer == NOT_ASKED) {
        void *block = HK_WHOEVER(process_malloc)(1);
        if (block == NULL)
            return true; /* the test needs a block; a later call repeats the test, because no answer is stored */
        answer = hk_page_map_lookup((uintptr_t)block) != 0 || hk_slots_hold(block) ? YES : NO;
        HK_WHOEVER(process_free)(block);
        hk_store(xanswer, answer);
    }
    return answer == YES;
}

/* The C library calls the destructors of thread keys in up to four rounds. In the first round, the program's destructors free the thread's objects.
 * Therefore a tcache ends in the second round. It does not wait for the third or fourth round, because a destructor may begin a tcache, which then
 * needs two rounds of its own. If the rounds end before a tcache does, other threads find out that its thread has ended. */
enum { LAST_ROUND = 2, COUNTED = 16 };

static struct {
    _Atomic bool xhooked;
    bool has_key;
    pthread_key_t key;
    int ended_as; /* id of the process that has already written its files at exit */
} life HK_EACH_PROCESS_DATA;

/* Ends the cache in round LAST_ROUND. `value` is the round, plus COUNTED for a counted thread. If the value is set again, another round follows. */
static void thread_ending(void *value)
{
    uintptr_t round = (uintptr_t)value;
    if (round % COUNTED < LAST_ROUND && pthread_setspecific(life.key, (void *)(round + 1)) == 0)
        return;
    hk_tcache_end();
    if (hk_options.background == HK_BACKGROUND_ON)
        hk_background_force(); /* the background thread must end if no thread has a tcache any more */
    bool counted = round >= COUNTED;
    if (counted ? hk_background_thread_ended() : !hk_thread_count_many() && hk_tcaches_alive() <= 1)
        hk_tcaches_all_ended();
}

bool hk_mark_thread(void)
{
    return hk_load_acquire(life.xhooked) && life.has_key &&
           pthread_setspecific(life.key, (void *)(uintptr_t)(COUNTED + 1)) == 0;
}

/* The fork handlers make HAKMEM's data consistent in the child, which has only the thread that called fork. They do not affect the parent.
 *
 *   prepare: takes the stream lock, then all locks by rank (base/ranks.def) --fork--> parent: releases the locks in reverse order
 *                                                                                     child: resets the locks, then repairs the data
 *
 * The child has no background thread, and the caches of the other threads go to the pool. Other threads may have been changing data without a lock,
 * or under a lock of their own. The child reconstructs such data from consistent data (docs/OWNERSHIP.md). The stream lock protects glibc's list of
 * streams, and fork takes it after the prepare handlers. Its holder may wait for a stream, and the holder of the stream may wait for one of HAKMEM's
 * locks. Therefore prepare takes the stream lock first. The stream lock is recursive, so fork can take it again. */
extern void _IO_list_lock(void) __attribute__((weak));
extern void _IO_list_unlock(void) __attribute__((weak));

/* True if the process had one thread at the fork. The handlers then do less, because no lock is held, and no data is in the middle of a change. */
static bool alone_at_fork;

static void fork_prepare(void)
{
    alone_at_fork = hk_only_thread();
    if (alone_at_fork)
        return;
    if (_IO_list_lock != NULL)
        _IO_list_lock();
    hk_tcaches_end_parked(true); /* the child would lose their blocks */
    hk_abandoned_fork_prepare();
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

static void fork_child(void)
{
    struct hk_tcache *cache = hk_tcache_self();
    struct hk_owner *self = cache != NULL ? &cache->owner : NULL;
    HK_COUNT(forks, 1);
    if (!alone_at_fork)
        hk_locks_reset_all(); /* before hk_background_reset(), which may shut the gate under a lock */
    hk_named_files_fork_child();
    hk_footprint_fork_child();
    hk_background_home = hk_os.process_id();
    hk_background_reset();
    if (cache != NULL) { /* the thread has a new system thread id in the child */
        hk_liveness_renew(&cache->liveness);
        cache->system_thread = cache->system_thread != 0 ? (uint32_t)hk_os_thread_id() : 0;
    }
    if (alone_at_fork)
        return;
    hk_hooks_fork_child();
    hk_meta_fork_child();
    hk_owners_fork_child(self);
    hk_tcaches_fork_child();
    hk_decisions_forget();
    hk_abandoned_add_rest(self);
    if (cache != NULL) {
        hk_tcache_fork_child_unmark(cache);
        hk_outbox_track_again(&cache->outbox);
    }
}

/* glibc's pthread_atfork only calls __register_atfork. A direct call does not touch the page with the code of pthread_atfork. */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library)
    __attribute__((weak));

/* Registers the fork handlers, and creates the thread key. Registers hk_start_lock too, so that a fork waits while another thread starts HAKMEM. */
HK_EACH_PROCESS static void watch(void)
{
    hk_lock_register(HK_RANK_START, &hk_start_lock);
    if (__register_atfork != NULL)
        __register_atfork(fork_prepare, fork_parent, fork_child, NULL);
    else
        pthread_atfork(fork_prepare, fork_parent, fork_child);
    life.has_key = pthread_key_create(&life.key, thread_ending) == 0;
    if (!life.has_key)
        hk_message(HK_TEXT_thread_key);
}

/* Begins the thread's cache before it registers the fork handlers, because the C library may allocate during the registration. */
HK_NOINLINE struct hk_tcache *hk_tcache_get_slow(void)
{
    if (!hk_started() || hk_tcache_ended() || !hk_tcache_begin())
        return NULL;
    hk_tcache_self()->system_thread = hk_reports_wanted() ? (uint32_t)hk_os_thread_id() : 0;
    if (HK_UNLIKELY(!hk_load_acquire(life.xhooked))) {
        hk_lock(&hk_start_lock);
        if (!hk_load(life.xhooked)) {
            watch();
            hk_store_release(life.xhooked, true);
        }
        hk_unlock(&hk_start_lock);
    }
    if (life.has_key && pthread_getspecific(life.key) == NULL)
        pthread_setspecific(life.key, (void *)1);
    return hk_tcache_self();
}

/* glibc passes the arguments of main() to constructors. If this library is initialized first (initfirst), only these arguments lead to the
 * environment. Other C libraries pass no arguments, but have already set `environ`. Without options, HAKMEM does not start here but at the first
 * call, so that a process that never allocates pays for no heap. The constructor then only registers the fork handlers and the key, before any code
 * of the program runs. It sets xhooked before it registers them, because the C library may allocate during the registration. */
__attribute__((constructor)) HK_EACH_PROCESS static void process_begins(int argc, char **argv, char **variables)
{
    (void)argc, (void)argv;
    hk_stderr_begin();
    hk_os_environment_begins(variables);
    if (HK_UNLIKELY(is_served_by_another()))
        hk_options_ignore();
    if (!hk_options_given() && !hk_load(life.xhooked) && hk_only_thread()) {
        hk_background_home = hk_os.process_id();
        hk_store_release(life.xhooked, true);
        watch();
        return;
    }
    (void)hk_tcache_get();
    hk_signals_begin();
    if (hk_options.guard_sample != 0)
        (void)hk_os_catch_faults(NULL);
}

/* Checks the free blocks in this thread's bins. If safe_free is `exit`, flushes the caches of ended threads and of this thread instead, because a flush
 * checks each free block. Then writes the files that options ask for at exit. The caches of other threads stay as they are, because these threads may
 * still run. */
__attribute__((destructor)) HK_EACH_PROCESS static void process_ends(void)
{
    struct hk_tcache *cache = hk_tcache_self();
    if (hk_options.safe_free == HK_SAFE_FREE_EXIT && hk_started()) {
        (void)hk_tcaches_reap(UINT32_MAX);
        hk_tcaches_end_parked(true);
        if (cache != NULL)
            hk_tcache_flush(cache);
    } else if (cache != NULL)
        hk_bins_check(cache);
    if (hk_named_files_wanted())
        hk_exit_report(true);
    life.ended_as = hk_background_home;
}

/* Does nothing in a vfork child, which shares its parent's memory, because only the parent writes the reports. */
void hk_end_at_once(void)
{
    if (!hk_load_acquire(hk_start_done) || !hk_named_files_wanted() || life.ended_as == hk_background_home)
        return;
    if (hk_background_home == hk_os.process_id() && hk_report_may_take_locks())
        process_ends();
}
