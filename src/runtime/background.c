#include "runtime/background.h"

#include <errno.h>
#include <signal.h>

#include "base/bits.h"
#include "base/message.h"
#include "decay/decay.h"
#include "decay/wake.h"
#include "os/os.h"
#include "policy/policy.h"
#include "runtime/exit_report.h"
#include "runtime/learning.h"
#include "runtime/thread_count.h"
#include "tcache/pool.h"

enum {
    STACK = 256 * 1024, /* the program's thread-local storage lies in it too */
    LATER_MS = 500,
    LOOKS_A_DELAY = 4, /* at what ages */
    ROUNDS_A_REST = 64, /* rounds that give nothing back take a 64th of a processor's time, */
    LONGEST_REST_MS = 1000, /* but on a busy machine a round seems long that was not */
    QUIET_ROUNDS = 3, /* what goes when two passes have seen it, is gone by then */
    STUCK_ROUNDS = 16, /* nothing more goes, though something lies idle */
    MADE_WITHIN_MS = 1000, /* a filter of the program's may have ended it on its way */
    FREE_TRIES = 8,
    BETWEEN_TRIES_MS = 100,
    AFTER_REFUSAL_MS = 60000,
};

enum stage { NONE, BEING_MADE, THERE, ENDING, LEFT_BEHIND };

static struct {
    _Atomic uint32_t xstage;
    _Atomic bool xshut_in;
    int home;         /* the process that may have one: in a vfork child it is another's */
    pthread_t thread; /* of whoever changes the stage */
    _Atomic uint32_t xtries;
    _Atomic uint64_t xnot_before; /* ms */
} background;

static bool move_on(uint32_t from, uint32_t to)
{
    if (!atomic_compare_exchange_strong_explicit(&background.xstage, &from, to, memory_order_seq_cst, memory_order_relaxed))
        return false;
    if (from == BEING_MADE)
        hk_os.futex_wake(&background.xstage, INT32_MAX);
    return true;
}

void hk_background_reset(void)
{
    hk_store(background.xstage, NONE);
    background.home = hk_os.process_id();
    hk_store(background.xtries, 0);
    hk_wake_end();
    hk_store(hk_wake_wanted, hk_options.background == HK_BACKGROUND_ON);
    hk_reports_begin();
}

static void wait_until_made(void)
{
    uint64_t now = hk_os.clock_ms(), end = now + MADE_WITHIN_MS;
    for (; hk_load_acquire(background.xstage) == BEING_MADE && now < end; now = hk_os.clock_ms())
        hk_os.futex_wait_for(&background.xstage, BEING_MADE, end - now);
}

/* Rests until the next round, but for what is due meanwhile. */
static void rest_report_and_learn(uint64_t ms)
{
    uint64_t now = hk_os.clock_ms(), end = now + ms;
    while (now < end && !hk_wake_is_leaving()) {
        hk_wake_rest(hk_min(end - now, hk_report_if_due(now)));
        now = hk_os.clock_ms();
    }
    if (hk_learning_is_due() && !hk_wake_is_leaving())
        hk_learning_tick();
}

/* What comes from outside is to be seen though the program sleeps. */
static bool looks_at_clock(void)
{
    return hk_reports_wanted() || (hk_options.background == HK_BACKGROUND_ON && hk_options.goal != NULL);
}

/* A round, and what is due after it: who only looked rests for many times as long as that took. */
static struct hk_round paced_round(uint64_t *rest_ms)
{
    size_t footprint = hk_decay_footprint();
    uint64_t began = hk_os.clock_ns();
    struct hk_round round = hk_decay_in_background();
    hk_pool_epoch(hk_os.clock_ms());
    uint64_t took = (hk_os.clock_ns() - began) / 1000000;
    *rest_ms = hk_decay_footprint() < footprint ? took : hk_min(took * ROUNDS_A_REST, LONGEST_REST_MS);
    return round;
}

/* How much lies idle: where that stays what it is for long, no more can be given back. */
struct stuck {
    size_t idle;
    unsigned rounds;
};

static bool may_go(struct stuck *stuck, const struct hk_round *round)
{
    size_t idle = hk_decay_idle();
    stuck->rounds = idle == stuck->idle ? stuck->rounds + 1 : 0;
    stuck->idle = idle;
    return round->waits && stuck->rounds < STUCK_ROUNDS;
}

static void work(void)
{
    struct stuck stuck = {0, 0};
    struct hk_round round = {false, true};
    uint64_t pause;
    for (unsigned quiet = 0; round.threads && !hk_wake_is_leaving();) {
        if (hk_wake_before_round())
            quiet = stuck.rounds = 0;
        round = paced_round(&pause);
        bool waits = may_go(&stuck, &round);
        quiet = waits ? 0 : quiet + 1;
        uint64_t soon = hk_max(HK_TICK_MS, HK_POLICY(purge_delay) / LOOKS_A_DELAY);
        if (quiet < QUIET_ROUNDS || looks_at_clock())
            rest_report_and_learn(hk_max(waits ? soon : LATER_MS, pause));
        else
            hk_wake_sleep();
    }
}

/* Its name is the one call that the making of a thread has not shown to be allowed. When the last thread that has a cache has ended,
 * it ends too: a process lives as long as any of its threads. */
static void *run(void *unused)
{
    if (!hk_load(background.xshut_in))
        pthread_setname_np(pthread_self(), "hakmem");
    (void)move_on(BEING_MADE, THERE);
    work();
    hk_wake_end();
    if (move_on(THERE, NONE))
        pthread_detach(pthread_self());
    else
        (void)move_on(LEFT_BEHIND, NONE);
    return unused;
}

static bool make_thread(hk_thread_maker *make)
{
    pthread_attr_t how;
    if (pthread_attr_init(&how) != 0)
        return false;
    pthread_attr_setstacksize(&how, STACK);
    bool made = make(&background.thread, &how, run) == 0;
    pthread_attr_destroy(&how);
    return made;
}

/* It is born with the mask that its maker has at that moment. */
static bool make_deaf_thread(hk_thread_maker *make)
{
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return false;
    bool made = make_thread(make);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return made;
}

static bool too_soon(void)
{
    return hk_load(background.xtries) >= FREE_TRIES && hk_os.clock_ms() < hk_load(background.xnot_before);
}

static void note_try(void)
{
    hk_add(background.xtries, 1);
    hk_store(background.xnot_before, hk_os.clock_ms() + BETWEEN_TRIES_MS);
}

static void put_off(void)
{
    hk_store(background.xtries, FREE_TRIES);
    hk_store(background.xnot_before, hk_os.clock_ms() + AFTER_REFUSAL_MS);
}

/* Asked again when its place is taken: who ends it, or is about to shut the process in, waits for who has taken it. */
static bool still_wanted(bool in_malloc)
{
    if (hk_options.background == HK_BACKGROUND_ON)
        return true;
    return hk_thread_count_many() && !(in_malloc && hk_load(background.xshut_in));
}

static void not_made(void)
{
    static _Atomic bool xsaid;
    hk_wake_end();
    put_off();
    (void)move_on(BEING_MADE, NONE);
    if (hk_options.background == HK_BACKGROUND_ON && !atomic_exchange(&xsaid, true))
        hk_message("no background thread to be had: memory goes back only in calls of malloc and free");
}

static void make_and_wait(hk_thread_maker *make)
{
    note_try();
    hk_reports_listen();
    hk_wake_begin();
    if (!make_deaf_thread(make)) {
        not_made();
        return;
    }
    wait_until_made();
    (void)move_on(BEING_MADE, THERE);
}

static void begin_if_wanted(bool in_malloc, hk_thread_maker *make)
{
    int saved_errno = errno, cancel;
    if (!still_wanted(in_malloc) || !move_on(NONE, BEING_MADE))
        return;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    if (still_wanted(in_malloc))
        make_and_wait(make);
    else
        (void)move_on(BEING_MADE, NONE);
    pthread_setcancelstate(cancel, NULL);
    errno = saved_errno;
}

/* A wish that cannot be granted here comes again with the next tick. */
HK_COLD void hk_background_begin_in_malloc(const void *caller, hk_thread_maker *make)
{
    if (!hk_reports_wanted() && !hk_wake_is_worth(hk_decay_mapped()))
        return;
    hk_store(hk_wake_wanted, false);
    if (hk_load(background.xstage) == NONE && !too_soon() && !hk_os.in_loader(caller) && hk_os.process_id() == background.home)
        begin_if_wanted(true, make);
}

void hk_background_begin_with_thread(hk_thread_maker *make)
{
    if (hk_load(background.xstage) == NONE && hk_wake_is_worth(hk_decay_footprint()) && !too_soon())
        begin_if_wanted(false, make);
}

/* For so long at most: a copy of this process that was made by a bare system call has no such thread, and to give very much back takes
 * long. */
static bool join(void)
{
    for (unsigned tries = 0; tries < HK_PAUSES_A_SECOND; tries++) {
        if (pthread_tryjoin_np(background.thread, NULL) != EBUSY)
            return true;
        hk_os.pause();
    }
    pthread_detach(background.thread);
    return false;
}

bool hk_background_end(void)
{
    int cancel;
    wait_until_made();
    if (!move_on(THERE, ENDING))
        return false;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    hk_wake_leave();
    bool gone = join();
    if (gone)
        hk_wake_end();
    (void)move_on(ENDING, gone ? NONE : LEFT_BEHIND);
    pthread_setcancelstate(cancel, NULL);
    return true;
}

void hk_background_thread_ended(void)
{
    if (hk_thread_count_less())
        (void)hk_background_end();
}

bool hk_background_give_way(void)
{
    if (!hk_background_end())
        return false;
    put_off();
    return true;
}

void hk_background_shut_in(void)
{
    atomic_store_explicit(&background.xshut_in, true, memory_order_seq_cst);
    wait_until_made();
}
