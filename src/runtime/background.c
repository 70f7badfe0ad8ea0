/* Creates the background thread, runs its rounds, and ends it when the program has only one thread again. */
#include "runtime/background.h"
#include <errno.h>
#include "decay/background_state.h"
#include "guard/sampled_due.h"
#include "runtime/exit_report.h"
#include "runtime/learning.h"
#include "tcache/pool.h"

enum {
    STACK = 256 * 1024, /* in bytes; the stack also holds the thread-local storage of all modules */
    QUIET_PAUSE_MS = 500,
    ROUNDS_PER_DELAY = 4,
    REST_PER_ROUND = 64,   /* pause after a round that purged nothing, in durations of the round; uses 1/64 of a CPU */
    MAX_REST_MS = 1000,    /* the longest such pause, because a round takes longer on a busy machine */
    QUIET_ROUNDS = 3,      /* rounds without aging memory, after which the thread sleeps */
    STUCK_ROUNDS = 16,     /* rounds in which the idle bytes did not change, after which the thread may sleep */
    MADE_WITHIN_MS = 1000, /* the longest wait for the thread to run, because a seccomp filter may have killed it */
    FREE_TRIES = 8,
    BETWEEN_TRIES_MS = 100,
    AFTER_REFUSAL_MS = 60000,
};

enum stage { NONE, BEING_MADE, THERE, ENDING, LEFT_BEHIND };

static struct {
    _Atomic uint32_t xstage;
    _Atomic bool xshut_in;
    pthread_t thread; /* used only by the thread that changes the stage */
    _Atomic uint32_t xtries;
    _Atomic uint64_t xnot_before; /* earliest time in ms at which a thread may be created */
} background HK_EACH_PROCESS_DATA;
int hk_background_home HK_EACH_PROCESS_DATA;

static _Atomic uint32_t xthreads = 1;

bool hk_thread_count_many(void) { return atomic_load_explicit(&xthreads, memory_order_seq_cst) > 1; }

static bool move_on(uint32_t from, uint32_t to)
{
    if (!hk_replace(background.xstage, &from, to, memory_order_seq_cst))
        return false;
    if (from == BEING_MADE)
        hk_os.futex_wake(&background.xstage, INT32_MAX);
    return true;
}

void hk_background_reset(void)
{
    hk_store(xthreads, 1);
    hk_store(background.xstage, NONE);
    hk_store(background.xtries, 0);
    hk_background_state_end();
    hk_mode_clear(HK_MODE_WAKE);
    if (hk_options.background == HK_BACKGROUND_ON)
        hk_mode_set(HK_MODE_WAKE);
    hk_reports_begin();
    hk_sample_rounds_begin();
}

/* Waits while another thread creates the background thread. A caller that wants to prevent its creation first changes a value that still_wanted()
 * reads. The fences here and in begin_if_wanted() ensure that still_wanted() reads the new value, or that this function sees BEING_MADE and waits. */
static void wait_until_made(void)
{
    atomic_thread_fence(memory_order_seq_cst);
    uint64_t now = hk_os.clock_ms(), end = now + MADE_WITHIN_MS;
    for (; hk_load_acquire(background.xstage) == BEING_MADE && now < end; now = hk_os.clock_ms())
        hk_os.futex_wait_for(&background.xstage, BEING_MADE, end - now);
}

static void work(void)
{
    size_t idle = 0; /* idle bytes after the last round; while they stay the same, nothing can be purged */
    unsigned same_rounds = 0;
    struct hk_round round = {false, true};
    for (unsigned quiet = 0; round.threads && !hk_background_is_leaving();) {
        if (hk_background_before_round())
            quiet = same_rounds = 0;
        size_t footprint = hk_decay_footprint();
        uint64_t began = hk_os.clock_ns();
        round = hk_decay_in_background();
        hk_pool_epoch(hk_os.clock_ms());
        hk_tcaches_end_parked(false);
        round.waits |= hk_tcaches_recall(false);
        uint64_t took = (hk_os.clock_ns() - began) / 1000000;
        bool purged = hk_decay_footprint() < footprint;
        uint64_t pause = purged ? took : hk_min(took * REST_PER_ROUND, MAX_REST_MS);
        size_t idle_before = idle;
        idle = hk_decay_idle();
        same_rounds = idle == idle_before ? same_rounds + 1 : 0;
        bool waits = round.waits && same_rounds < STUCK_ROUNDS;
        quiet = waits ? 0 : quiet + 1;
        uint64_t soon = hk_max(HK_TICK_MS, HK_POLICY(purge_delay) / ROUNDS_PER_DELAY);
        /* While the program is idle, only this thread writes reports, follows a memory goal, and runs the rounds of sampled_due.h. */
        bool stays_awake = hk_reports_wanted() || hk_sample_rounds_wait() ||
                           (hk_options.background == HK_BACKGROUND_ON && hk_options.goal != NULL);
        if (quiet < QUIET_ROUNDS || stays_awake) {
            uint64_t now = hk_os.clock_ms(), end = now + hk_max(waits ? soon : QUIET_PAUSE_MS, pause);
            for (; now < end && !hk_background_is_leaving(); now = hk_os.clock_ms())
                hk_background_rest(hk_min(end - now, hk_min(hk_report_if_due(now), hk_sample_round_if_due(now))));
            if (hk_learning_is_due() && !hk_background_is_leaving())
                hk_learning_tick();
        } else
            hk_background_sleep();
    }
}

/* Runs the background thread until no thread has a tcache. Otherwise the background thread would keep the process alive. After the program has
 * restricted its system calls, the thread does not set its name, because a filter may forbid this system call. */
static void *run(void *unused)
{
    if (!hk_load(background.xshut_in))
        pthread_setname_np(pthread_self(), "hakmem");
    (void)move_on(BEING_MADE, THERE);
    work();
    hk_background_state_end();
    if (move_on(THERE, NONE))
        pthread_detach(pthread_self());
    else
        (void)move_on(LEFT_BEHIND, NONE);
    return unused;
}

/* Creates the background thread with all signals blocked. A new thread inherits the mask of its creator, so the creator blocks them for a moment. */
static bool make_thread_without_signals(hk_thread_maker *make)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return false;
    bool made = pthread_attr_init(&attributes) == 0;
    if (made) {
        pthread_attr_setstacksize(&attributes, STACK);
        made = make(&background.thread, &attributes, run, NULL) == 0;
        pthread_attr_destroy(&attributes);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return made;
}

static bool too_soon(void)
{
    return hk_load(background.xtries) >= FREE_TRIES && hk_os.clock_ms() < hk_load(background.xnot_before);
}

static void back_off(void)
{
    hk_store(background.xtries, FREE_TRIES);
    hk_store(background.xnot_before, hk_os.clock_ms() + AFTER_REFUSAL_MS);
}

/* Returns true if a background thread is still wanted. The creator asks again after it has set the stage BEING_MADE (see wait_until_made). */
static bool still_wanted(bool in_malloc)
{
    return hk_options.background == HK_BACKGROUND_ON ||
           (hk_thread_count_many() && !(in_malloc && hk_load(background.xshut_in)));
}

static void begin_if_wanted(bool in_malloc, hk_thread_maker *make)
{
    static _Atomic bool xsaid;
    int saved_errno = errno, cancel;
    if (!still_wanted(in_malloc) || !move_on(NONE, BEING_MADE))
        return;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    atomic_thread_fence(memory_order_seq_cst);
    bool tries = still_wanted(in_malloc), made = false;
    if (tries) {
        hk_add(background.xtries, 1);
        hk_store(background.xnot_before, hk_os.clock_ms() + BETWEEN_TRIES_MS);
        hk_reports_listen();
        hk_background_state_begin();
        made = make_thread_without_signals(make);
        if (made) {
            wait_until_made();
        } else {
            hk_background_state_end();
            back_off();
        }
    }
    (void)move_on(BEING_MADE, made ? THERE : NONE);
    if (tries && !made && hk_options.background == HK_BACKGROUND_ON && !atomic_exchange(&xsaid, true))
        hk_message(HK_TEXT_background);
    pthread_setcancelstate(cancel, NULL);
    errno = saved_errno;
}

/* Clears HK_MODE_WAKE even if no thread is created now, because the next tick sets it again if a background thread is still needed. */
HK_COLD void hk_background_begin_in_malloc(const void *caller, hk_thread_maker *make)
{
    if (!hk_reports_wanted() && !hk_sample_rounds_wait() && !hk_background_is_worth(hk_decay_mapped()))
        return;
    hk_mode_clear(HK_MODE_WAKE);
    if (hk_load(background.xstage) == NONE && !too_soon() && !hk_os_in_loader(caller) &&
        hk_os.process_id() == hk_background_home)
        begin_if_wanted(true, make);
}

void hk_background_begin_with_thread(hk_thread_maker *make)
{
    atomic_fetch_add_explicit(&xthreads, 1, memory_order_seq_cst);
    if (hk_load(background.xstage) == NONE && hk_background_is_worth(hk_decay_footprint()) && !too_soon())
        begin_if_wanted(false, make);
}

/* Waits at most a second, because a long purge may delay the end of the thread, and the thread does not exist in a process made by a bare clone. */
bool hk_background_end(void)
{
    int cancel;
    wait_until_made();
    if (!move_on(THERE, ENDING))
        return false;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    hk_background_leave();
    bool joined = HK_COMES_TRUE(pthread_tryjoin_np(background.thread, NULL) != EBUSY, HK_PAUSES_A_SECOND);
    if (joined)
        hk_background_state_end();
    else
        pthread_detach(background.thread);
    (void)move_on(ENDING, joined ? NONE : LEFT_BEHIND);
    pthread_setcancelstate(cancel, NULL);
    return true;
}

bool hk_background_thread_ended(void)
{
    bool alone = atomic_fetch_sub_explicit(&xthreads, 1, memory_order_seq_cst) == 2;
    if (alone)
        (void)hk_background_end();
    return alone;
}

bool hk_background_give_way(void)
{
    bool ended = hk_background_end();
    if (ended)
        back_off();
    return ended;
}

void hk_background_shut_in(void)
{
    atomic_store_explicit(&background.xshut_in, true, memory_order_seq_cst);
    wait_until_made();
}
