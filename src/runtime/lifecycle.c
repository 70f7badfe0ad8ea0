/* Runs the steps of the start in order, under a lock. Begins the cache of a thread, and ends it by the destructor of a thread key. Makes a fork child
 * consistent. Defines the library's constructor and destructor. */
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

/* Each process reads and then writes this flag, so it does not lie in a page of zeros, which would cost two page faults. */
static bool options_are_read HK_EACH_PROCESS_DATA;
_Atomic bool hk_start_done;

/* Holds its own address after the loader has relocated the library. Until then, holds the value that the file contains. */
static void *volatile own_address = (void *)&own_address;

bool hk_is_bootstrapping(void)
{
    /* Once the result is false, it stays false, because the loader initializes hk_self last. */
    return (uintptr_t)own_address != (uintptr_t)&own_address || !hk_os_has_thread_pointer() || hk_self == NULL;
}

static void step_options(void)
{
    hk_options_read();
    hk_named_files_begin();
    if (hk_reports_wanted())
        hk_options.background = HK_BACKGROUND_ON;
    if (hk_options.background == HK_BACKGROUND_ON)
        hk_slab_lists_shared = true;
    hk_policy_begin();
    options_are_read = true;
}

/* Not a part of hk_start(), which is cold, because clang optimizes the loops of a cold function for size, and each process runs these loops. */
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
    hk_sampled_begin();
    if (hk_background_home() == 0)
        hk_background_settle();
    hk_background_reset();
    hk_learning_begin();
    size_t hits_to = hk_hooks_begin();
    hk_cacheless_shut(&hk_thread_unborn);
    hk_gate_open(hk_guard.on ? 0 : hits_to);
    if (hits_to != HK_ALL_HIT) {
        hk_guard_take_hooks();
        hk_hooks_open();
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

HK_EACH_PROCESS bool hk_process_is_served_by_another(void)
{
    if (HK_IS_OURS(process_malloc, hak_malloc))
        return false;
    int (*mallopt_of_process)(int, int) = (int (*)(int, int))hk_forward_symbol("mallopt");
    hk_store(xasking, true);
    bool answered = mallopt_of_process != NULL && mallopt_of_process(HK_MALLOPT_WHO_SERVES, 0) == HK_MALLOPT_HAKMEM;
    hk_store(xasking, false);
    return answered;
}

/* Calls the process's malloc, and returns true if the address of the block is in HAKMEM's heap. */
bool hk_process_is_served(void)
{
    static _Atomic unsigned xanswer;
    enum { NOT_ASKED, YES, NO };
    unsigned answer = hk_load(xanswer);
    if (answer == NOT_ASKED) {
        void *block = HK_WHOEVER(process_malloc)(1);
        if (block == NULL)
            return true; /* the result stays undecided, so that the next call tries again */
        answer = hk_page_map_lookup((uintptr_t)block) != 0 || hk_slots_hold(block) ? YES : NO;
        HK_WHOEVER(process_free)(block);
        hk_store(xanswer, answer);
    }
    return answer == YES;
}

/* The C library calls key destructors in up to four rounds. A tcache ends in the second round, because in the first round the program's destructors
 * free the thread's objects. Later calls work without a tcache. A tcache does not end in the third or fourth round, because a tcache that begins in a
 * destructor also needs rounds to end. If a tcache has no round to end, other threads find out that its thread has ended. */
enum { LAST_ROUND = 2, COUNTED = 16 };

static struct {
    _Atomic bool xhooked;
    bool has_key;
    pthread_key_t key;
    int ended_as; /* id of the process that has written its report at exit */
} life HK_EACH_PROCESS_DATA;

/* Ends the cache in round LAST_ROUND. `value` is the round, plus COUNTED for a counted thread. Setting the value again requests another round. */
static void thread_ending(void *value)
{
    uintptr_t round = (uintptr_t)value;
    if (round % COUNTED < LAST_ROUND && pthread_setspecific(life.key, (void *)(round + 1)) == 0)
        return;
    hk_tcache_end();
    if (hk_options.background == HK_BACKGROUND_ON)
        hk_background_force(); /* the background thread must end if this was the last thread with a tcache */
    bool counted = round >= COUNTED;
    if (counted ? hk_background_thread_ended() : !hk_thread_count_many() && hk_tcaches_alive() <= 1)
        hk_tcaches_all_ended();
}

bool hk_mark_thread(void)
{
    return hk_load_acquire(life.xhooked) && life.has_key &&
           pthread_setspecific(life.key, (void *)(uintptr_t)(COUNTED + 1)) == 0;
}

/* The fork handlers make all data that locks protect consistent in the child, which has one thread. They do not affect the parent.
 *
 *   prepare: stream lock, then all locks by rank (base/ranks.def) --fork--> parent: unlocks in reverse order
 *                                                                     child: resets the locks, then repairs the rest
 *
 * The child has no background thread, and the caches of the other threads go to the pool. Updates that those threads were making without a lock, or
 * under a lock of their own, are reconstructed from consistent data (docs/OWNERSHIP.md). glibc's fork takes the recursive lock of the list of streams
 * after the prepare handlers. The holder of this lock may wait for a stream, and the holder of the stream may wait for one of our locks. Therefore
 * prepare takes the list lock before our locks. */
extern void _IO_list_lock(void) __attribute__((weak));
extern void _IO_list_unlock(void) __attribute__((weak));

/* True if the process has one thread at the fork. The handlers then do less, because no lock is held, and no other thread is making an update. */
static bool alone_at_fork;

static void fork_prepare(void)
{
    alone_at_fork = hk_only_thread();
    if (alone_at_fork)
        return;
    if (_IO_list_lock != NULL)
        _IO_list_lock();
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
    hk_named_files_fork_child();
    hk_background_settle();
    hk_background_reset();
    if (cache != NULL) { /* in the child, the thread has another system thread id */
        hk_liveness_renew(&cache->liveness);
        cache->system_thread = cache->system_thread != 0 ? (uint32_t)hk_os_thread_id() : 0;
    }
    if (alone_at_fork)
        return;
    hk_locks_reset_all();
    /* Repairs the data that the parent's other threads were changing at the fork. */
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

/* glibc's pthread_atfork calls __register_atfork. A direct call does not touch the page that has the code of pthread_atfork. */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library)
    __attribute__((weak));

/* Registers the fork handlers and creates the thread key. Registers hk_start_lock, so that a fork waits while another thread starts HAKMEM and
 * registers other locks. */
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

/* glibc passes the arguments of main() to constructors. If the library is initialized first (initfirst), these arguments are the only access to the
 * environment. Other C libraries pass no arguments, but have already set `environ`. Without options, HAKMEM starts at the first call instead of here,
 * so that a process that never allocates pays for no heap. Then the constructor only registers the fork handlers and the key, which must precede all
 * code of the program. It sets xhooked before, because the C library may allocate during the registration. */
__attribute__((constructor)) HK_EACH_PROCESS static void process_begins(int argc, char **argv, char **variables)
{
    (void)argc, (void)argv;
    hk_stderr_begin();
    hk_os_environment_begins(variables);
    if (HK_UNLIKELY(hk_process_is_served_by_another()))
        hk_options_ignore();
    if (!hk_options_given() && !hk_load(life.xhooked) && hk_only_thread()) {
        hk_background_settle();
        hk_store_release(life.xhooked, true);
        watch();
        return;
    }
    (void)hk_tcache_get();
    hk_signals_begin();
    if (hk_options.guard_sample != 0)
        (void)hk_os_catch_faults(NULL);
}

/* Writes the files of options at exit. If safe_free is `exit`, first flushes the caches of ended threads and of this thread, because a flush checks
 * free blocks. Leaves the caches of other threads, because these threads may still run. The drain then checks blocks that the flush has sent to slabs
 * of this thread. */
__attribute__((destructor)) HK_EACH_PROCESS static void process_ends(void)
{
    if (hk_options.safe_free == HK_SAFE_FREE_EXIT && hk_started()) {
        struct hk_tcache *cache = hk_tcache_self();
        (void)hk_tcaches_reap(UINT32_MAX);
        if (cache != NULL) {
            hk_tcache_flush(cache);
            hk_drain_all(cache);
        }
    }
    if (hk_named_files_wanted())
        hk_exit_report(true);
    life.ended_as = hk_background_home();
}

/* Does nothing in a vfork child, because the child shares its parent's memory, and only the parent writes the reports. */
void hk_end_at_once(void)
{
    if (!hk_load_acquire(hk_start_done) || !hk_named_files_wanted() || life.ended_as == hk_background_home())
        return;
    if (hk_background_home() == hk_os.process_id() && hk_report_may_take_locks())
        process_ends();
}
