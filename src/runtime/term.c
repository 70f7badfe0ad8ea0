/* Handles SIGTERM if the program does not, and shows the last events when the program crashes. */
#include "runtime/term.h"

#include <signal.h>

#include "base/base.h"
#include "base/fatal.h"
#include "base/message.h"
#include "os/os.h"
#include "os/forward.h"
#include "policy/options.h"
#include "report/report.h"
#include "runtime/exit_report.h"
#include "runtime/learning.h"

/* The thread may hold a lock: then it keeps that for good, as the handler does not return to it. The heap profile takes none. */
static void write_last(void)
{
    static atomic_flag begun = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&begun))
        return;
    if (hk_report_may_take_locks()) {
        hk_learning_end();
        hk_exit_report();
    } else {
        hk_exit_profile();
    }
}

static void on_term(int number, siginfo_t *info, void *context)
{
    (void)context;
    write_last();
    hk_os.default_signal(number, info);
}

void hk_term_begin(void)
{
    if (hk_options.report != NULL || hk_options.heap_profile != NULL || hk_options.explain != NULL ||
        hk_options.profile_save != NULL)
        hk_os.catch_signal(SIGTERM, on_term);
}

static __attribute__((used)) int set_action(int number, const struct sigaction *action, struct sigaction *former)
{
    return hk_caught_sigaction(number, action, former);
}

static __attribute__((used)) sighandler_t set_handler(int number, sighandler_t handler)
{
    return hk_caught_signal(number, handler);
}

HK_STANDS_BEFORE(int, sigaction, (int number, const struct sigaction *action, struct sigaction *former), set_action)
HK_STANDS_BEFORE(sighandler_t, signal, (int number, sighandler_t handler), set_handler)

enum { CRASH_WAITS = 100, CRASH_WAIT_MS = 10 };

static void on_request(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    (void)context;
    hk_last_events_write(HK_STDERR);
}

/* Once per process. Another thread that crashes meanwhile waits for up to a second: its end would cut the output
 * off. */
static void show_once(void)
{
    static atomic_flag begun = ATOMIC_FLAG_INIT;
    static _Atomic bool xdone;
    if (!atomic_flag_test_and_set(&begun)) {
        hk_last_events_write(HK_STDERR);
        hk_store(xdone, true);
    }
    for (int i = 0; i < CRASH_WAITS && !hk_load(xdone); i++)
        hk_os.rest(CRASH_WAIT_MS);
}

static void on_crash(int number, siginfo_t *info, void *context)
{
    (void)context;
    show_once();
    hk_os.default_signal(number, info);
}

void hk_crash_begin(void)
{
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE};
    if (hk_options.trace_ring == 0)
        return;
    hk_last_words = show_once;
    hk_os.catch_signal(SIGUSR2, on_request);
    for (unsigned i = 0; i < sizeof crashes / sizeof crashes[0]; i++)
        hk_os.catch_signal(crashes[i], on_crash);
}
