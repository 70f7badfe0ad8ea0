#include "api/background.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "api/exit_report.h"
#include "api/learning.h"
#include "base/bits.h"
#include "base/say.h"
#include "front/pool.h"
#include "os/os.h"
#include "span/runs.h"
#include "tiers/bigcache.h"
#include "tiers/giveback.h"

#define WORTH_A_THREAD (8 * HK_MIB)

enum {
    STACK = 256 * 1024, /* the program's thread-local storage lies in it too */
    SOON_MS = 150,
    LATER_MS = 500,
};

static _Atomic bool xrunning;
static _Atomic int xhome; /* the process that may have one: in a vfork child it is another's */

void hk_background_reset(void)
{
    hk_store(xrunning, false);
    hk_store(xhome, hk_os.process_id());
    hk_reports_begin();
}

/* Rests until the next round, but for what is due meanwhile. */
static void rest_report_and_learn(uint64_t ms)
{
    uint64_t now = hk_os.clock_ms(), end = now + ms;
    while (now < end) {
        hk_os.rest(hk_min(end - now, hk_report_if_due(now)));
        now = hk_os.clock_ms();
    }
    if (hk_learning_is_due())
        hk_learning_tick();
}

/* When the last thread that has a cache has ended, it ends too: a process lives as long as any of its threads. */
static void *run(void *unused)
{
    pthread_setname_np(pthread_self(), "hakmem");
    for (struct hk_round round = {false, true}; round.threads; round = hk_giveback_in_background()) {
        rest_report_and_learn(round.waits ? SOON_MS : LATER_MS);
        hk_pool_pass(hk_os.clock_ms());
    }
    hk_store(xrunning, false);
    return unused;
}

static bool worth_a_thread(void)
{
    if (hk_reports_wanted())
        return true;
    struct hk_runs_totals units;
    struct hk_big_totals bigs;
    hk_runs_total(&units);
    hk_big_total(&bigs);
    return units.mapped + bigs.live + bigs.cached >= WORTH_A_THREAD;
}

static bool make_thread(void)
{
    pthread_t thread;
    pthread_attr_t how;
    if (pthread_attr_init(&how) != 0)
        return false;
    pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&how, STACK);
    bool made = pthread_create(&thread, &how, run, NULL) == 0;
    pthread_attr_destroy(&how);
    return made;
}

/* It is born with the mask that its maker has at that moment. */
static bool make_deaf_thread(void)
{
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return false;
    bool made = make_thread();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return made;
}

HK_COLD void hk_background_begin(const void *caller)
{
    bool running = false;
    if (hk_load(xrunning) || !worth_a_thread() || hk_os.in_loader(caller) || hk_os.process_id() != hk_load(xhome))
        return;
    if (!atomic_compare_exchange_strong_explicit(&xrunning, &running, true, memory_order_relaxed, memory_order_relaxed))
        return;
    int saved_errno = errno;
    hk_reports_listen();
    if (!make_deaf_thread())
        hk_say("no background thread to be had: memory goes back only in calls of malloc and free");
    errno = saved_errno;
}
