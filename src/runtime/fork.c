/* Takes all locks before a fork, and makes the child consistent. */
#include "runtime/fork.h"

#include <pthread.h>

#include "base/liveness.h"
#include "base/lock.h"
#include "count/decisions.h"
#include "os/os.h"
#include "prof/hooks.h"
#include "runtime/background.h"
#include "runtime/named_file.h"
#include "runtime/start.h"
#include "runtime/thread_count.h"
#include "slab/abandoned.h"
#include "slab/outbox.h"
#include "span/meta.h"
#include "tcache/tcache.h"

/* glibc's fork takes the lock of all streams after the prepare handlers. The thread that holds it may wait for a
 * stream, whose holder waits for one of our locks: therefore prepare takes it first. It is recursive. */
extern void _IO_list_lock(void) __attribute__((weak));
extern void _IO_list_unlock(void) __attribute__((weak));

/* A process with one thread holds no lock here and has no update under way. Every page not touched is one that neither
 * process has to copy. */
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

/* Repairs what the other threads were changing. */
static void fork_child_others(struct hk_tcache *cache)
{
    struct hk_owner *self = cache != NULL ? &cache->owner : NULL;
    hk_hooks_fork_child();
    hk_meta_fork_child();
    hk_owners_fork_child(self);
    hk_tcaches_fork_child();
    hk_decisions_forget();
    hk_abandoned_add_rest(self);
    if (cache == NULL)
        return;
    hk_tcache_fork_child_unmark(cache);
    hk_outbox_track_again(&cache->outbox);
}

/* The child's thread is another one to the system. */
static void renew(struct hk_tcache *cache)
{
    hk_liveness_renew(&cache->liveness);
    cache->system_thread = cache->system_thread != 0 ? (uint32_t)hk_os.thread_id() : 0;
}

static void fork_child(void)
{
    struct hk_tcache *cache = hk_tcache_self();
    HK_COUNT(forks, 1);
    hk_named_files_fork_child();
    hk_background_settle();
    hk_background_reset();
    hk_thread_count_reset();
    if (cache != NULL)
        renew(cache);
    if (alone_at_fork)
        return;
    hk_locks_reset_all();
    fork_child_others(cache);
}

/* What glibc's pthread_atfork calls; that one would be linked to the end of the library, into a page that few processes touch. */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library)
    __attribute__((weak));

/* A fork may run beside the first call of another thread, which registers the other locks. The forking thread waits for the start because
 * it takes this lock first. */
HK_EACH_PROCESS void hk_fork_watch(void)
{
    hk_lock_register(HK_RANK_START, &hk_start_lock);
    if (__register_atfork != NULL)
        __register_atfork(fork_prepare, fork_parent, fork_child, NULL);
    else
        pthread_atfork(fork_prepare, fork_parent, fork_child);
}
