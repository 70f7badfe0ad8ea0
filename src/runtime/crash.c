#include "runtime/crash.h"

#include <signal.h>

#include "base/fatal.h"
#include "base/message.h"
#include "os/os.h"
#include "policy/options.h"
#include "report/last_events.h"

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
