/* Writes reports and heap profiles when they are due, and when SIGTERM ends the program. Prints the last events if the program crashes. */
#include "runtime/exit_report.h"
#include <errno.h>
#include "guard/fault_text.h"
#include "guard/guard.h"
#include "prof/hooks.h"
#include "report/report.h"
#include "runtime/named_file.h"
#include "os/forward.h"
#include "runtime/learning.h"
#include "span/page_heap.h"

enum { LOOK_MS = 100, PEAK_PART = 8, SIGNAL_SEEN_MS = 200 };

static int
    caught_in; /* the process that HAKMEM has started in; a vfork child shares this variable, but has another number */

static struct {
    uint64_t last_ms;
    uint64_t at;      /* number of resident bytes at which the next profile is due; 0: none is due */
    uint64_t live;    /* estimated live bytes at the last profile; used only if at_peak */
    bool at_peak;     /* true if HAKMEM_HEAP_PROFILE_AT=peak, so that each profile raises `at` */
    bool refused;     /* true if the last attempt to write the profile failed */
    _Atomic bool xat; /* true if a profile was due at least once */
} dumps;

static HK_COLD void dumps_begin(uint64_t now_ms)
{
    const char *text = hk_options.heap_profile_at;
    dumps.last_ms = now_ms;
    dumps.live = 0;
    hk_store(dumps.xat, false);
    dumps.at_peak = text != NULL && strcmp(text, "peak") == 0;
    dumps.at = dumps.at_peak;
    if (text == NULL || dumps.at_peak || (hk_option_number(text, strlen(text), &dumps.at) && dumps.at > 0))
        return;
    hk_message(HK_TEXT_profile_moment, text);
    hk_options.heap_profile_at = NULL;
    dumps.at = 0;
}

static bool dumps_wanted(void)
{
    return hk_options.heap_profile != NULL &&
           (hk_options.heap_profile_every != 0 || hk_options.heap_profile_at != NULL);
}

/* Returns true if the resident bytes have reached dumps.at. Freed memory stays resident for a while, so a new peak must also have more live bytes,
 * estimated from the samples, than the last profile. */
static bool comes(void)
{
    if (dumps.at == 0 || hk_resident_now(&(size_t){0}) < dumps.at)
        return false;
    if (dumps.at_peak)
        return hk_heap_profile_live() > dumps.live;
    dumps.at = 0;
    hk_store(dumps.xat, true);
    return true;
}

/* Writes the profile of a new peak. If the program frees much memory before the profile is complete, the file of the last peak stays. */
static int dump_peak(int fd, const char *path)
{
    uint64_t live = hk_heap_profile_live();
    (void)hk_heap_profile_write(fd, path);
    if (live <= dumps.live || hk_heap_profile_live() < live - live / PEAK_PART)
        return HK_FILE_STAYS;
    size_t resident = hk_resident_now(&(size_t){0});
    dumps.live = live;
    dumps.at = resident + resident / PEAK_PART;
    hk_store(dumps.xat, true);
    return 0;
}

static void dump_wanted(hk_file_writer *writer)
{
    hk_option_file_write("heap_profile", hk_options.heap_profile, ".heap", writer, &dumps.refused);
}

/* Returns true if `every` ms have passed since *last_ms, and then sets *last_ms to now. Lowers *until_due to the rest of the interval if needed. */
static bool interval_ends(uint64_t every, uint64_t *last_ms, uint64_t now_ms, uint64_t *until_due)
{
    if (every == 0)
        return false;
    bool ends = now_ms - *last_ms >= every;
    if (ends)
        *last_ms = now_ms;
    *until_due = hk_min(*until_due, *last_ms + every - now_ms);
    return ends;
}

int hk_heap_profile_write_to(const char *path)
{
    return hk_hooks.mean != 0 ? hk_named_file_write(path, NULL, hk_heap_profile_write) : -ENODATA;
}

static struct {
    uint64_t started_ms;     /* time at which HAKMEM started, in this process or in the ancestor that forked it */
    uint64_t last_ms;        /* time of the background thread's last report */
    _Atomic bool xrequested; /* a signal has requested a report */
    bool refused;            /* the last attempt to write the report failed */
    _Atomic bool xbusy;      /* the background thread is writing, or must not write any more because of the exit */
} reports;

HK_INLINE void check_not_alone(bool is_set, const char *option, const char *file, const char *file_option)
{
    if (HK_UNLIKELY(is_set) && file == NULL)
        hk_message(HK_TEXT_option_alone, option, file_option);
}

void hk_reports_begin(void)
{
    uint64_t now = hk_os.clock_ms();
    const char *report = hk_options.report, *profile = hk_options.heap_profile;
    if (reports.started_ms == 0) {
        check_not_alone(hk_options.report_every != 0, "report_every", report, "REPORT");
        check_not_alone(hk_options.report_signal != 0, "report_signal", report, "REPORT");
        check_not_alone(hk_options.heap_profile_every != 0, "heap_profile_every", profile, "HEAP_PROFILE");
        check_not_alone(hk_options.heap_profile_at != NULL, "heap_profile_at", profile, "HEAP_PROFILE");
        reports.started_ms = now;
    }
    reports.last_ms = now;
    hk_store(reports.xrequested, false);
    hk_store(reports.xbusy, false);
    hk_report_fork_child();
    caught_in = hk_os.process_id();
    if (HK_UNLIKELY(profile != NULL))
        dumps_begin(now);
}

static int write_report(int fd, const char *path)
{
    struct hk_report *report = hk_report_open();
    if (report == NULL)
        return -ENOMEM;
    hk_report_take(report, reports.started_ms);
    bool json = hk_ends_with(path, ".json"), metrics = hk_ends_with(path, ".prom");
    (json ? hk_report_json : metrics ? hk_report_metrics : hk_report_text)(fd, report);
    hk_report_close(report);
    return 0;
}

int hk_report_write(const char *path) { return hk_named_file_write(path, NULL, write_report); }

static bool reports_while_running(void)
{
    return hk_options.report != NULL && (hk_options.report_every != 0 || hk_options.report_signal != 0);
}

bool hk_reports_wanted(void) { return reports_while_running() || dumps_wanted(); }

static void note_signal(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info, (void)context;
    hk_store(reports.xrequested, true);
}

/* Refuses signals of faults. When the handler of a fault returns, the instruction is repeated, and raises the signal again without end. */
void hk_reports_listen(void)
{
    int number = (int)hk_options.report_signal;
    bool is_fault = number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGFPE;
    if (number != 0 && hk_options.report != NULL && (is_fault || !hk_os_catch_signal(number, note_signal)))
        hk_message(HK_TEXT_report_signal, number);
}

uint64_t hk_report_if_due(uint64_t now_ms)
{
    if (atomic_exchange_explicit(&reports.xbusy, true, memory_order_acquire))
        return UINT64_MAX;
    uint64_t until_due = UINT64_MAX;
    if (dumps_wanted()) {
        bool due = interval_ends(hk_options.heap_profile_every, &dumps.last_ms, now_ms, &until_due);
        if (comes() || due)
            dump_wanted(dumps.at_peak && !due ? dump_peak : hk_heap_profile_write);
        until_due = hk_min(until_due, dumps.at != 0 ? LOOK_MS : UINT64_MAX);
    }
    if (reports_while_running()) {
        bool requested = atomic_exchange_explicit(&reports.xrequested, false, memory_order_relaxed);
        if (requested)
            reports.last_ms = now_ms;
        if (interval_ends(hk_options.report_every, &reports.last_ms, now_ms, &until_due) || requested)
            hk_option_file_write("report", hk_options.report, ".json", write_report, &reports.refused);
        until_due = hk_min(until_due, hk_options.report_signal != 0 ? SIGNAL_SEEN_MS : UINT64_MAX);
    }
    hk_store_release(reports.xbusy, false);
    return until_due;
}

/* First waits until the background thread has written its file, but at most a second, because a slow disk must not delay the program's end. */
void hk_exit_report(bool takes_locks)
{
    if (takes_locks)
        hk_learning_end();
    if (hk_reports_wanted())
        (void)HK_COMES_TRUE(!atomic_exchange_explicit(&reports.xbusy, true, memory_order_acquire), HK_PAUSES_A_SECOND);
    if (hk_options.heap_profile != NULL && (hk_options.heap_profile_at == NULL || !hk_load(dumps.xat)))
        dump_wanted(hk_heap_profile_write);
    if (takes_locks && hk_options.report != NULL)
        hk_option_file_write("report", hk_options.report, ".json", write_report, &reports.refused);
}

bool hk_report_may_take_locks(void)
{
    struct hk_tcache *cache = hk_tcache_self();
    bool free = cache == NULL ||
                (hk_lock_comes_free(&cache->owner.slab_lists_lock) && hk_lock_comes_free(&cache->owner.drain_lock));
    return free && hk_locks_come_free();
}

/* If the interrupted thread may hold a lock, takes no lock, because the thread cannot release its lock while the handler waits. */
static void on_term(int number, siginfo_t *info, void *context)
{
    static atomic_flag begun = ATOMIC_FLAG_INIT;
    (void)context;
    if (!atomic_flag_test_and_set(&begun))
        hk_exit_report(hk_report_may_take_locks());
    hk_os_default_signal(number, info);
}

HK_STANDS_BEFORE(int, sigaction, (int number, const struct sigaction *action, struct sigaction *former))
{
    return hk_caught_sigaction(number, action, former);
}

HK_STANDS_BEFORE(sighandler_t, signal, (int number, sighandler_t handler)) { return hk_caught_signal(number, handler); }

static void on_request(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info, (void)context;
    hk_last_events_write(HK_STDERR);
}

/* Prints the last events once per process. A second thread that crashes waits up to a second, so that the first one can print all events. */
static void show_once(void)
{
    static atomic_flag begun = ATOMIC_FLAG_INIT;
    static _Atomic bool xdone;
    if (!atomic_flag_test_and_set(&begun)) {
        hk_last_events_write(HK_STDERR);
        hk_store(xdone, true);
    }
    (void)HK_COMES_TRUE(hk_load(xdone), HK_PAUSES_A_SECOND);
}

/* In the guarded modes, most faults are found in the call that is wrong, so the stack shows where the program is wrong. */
static void last_words(void)
{
    if (hk_guard.on)
        hk_fault_text_call();
    if (hk_options.trace_ring != 0)
        show_once();
}

/* Leaves free memory out of the core dump, unless this thread may hold a lock. The process must end after the signal, because it may not use this
 * memory later: a vfork child shares it with its parent, and the system ignores some signals that are sent by kill(). */
static void shrink_core(int number, const siginfo_t *info)
{
    static atomic_flag shrunk = ATOMIC_FLAG_INIT;
    bool ends = caught_in == hk_os.process_id() && (info->si_code > 0 || number == SIGABRT);
    if (!ends || atomic_flag_test_and_set(&shrunk) || !hk_report_may_take_locks())
        return;
    size_t bytes = hk_page_heap_leave_out_of_core() + hk_large_leave_out_of_core();
    if (bytes >= HK_MIB)
        hk_message(HK_TEXT_core_left_out, bytes / HK_MIB);
}

static void on_crash(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (hk_options.trace_ring != 0)
        show_once();
    if (hk_options.core == HK_CORE_LIVE)
        shrink_core(number, info);
    hk_os_default_signal(number, info);
}

void hk_signals_begin(void)
{
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE};
    if (hk_named_files_wanted())
        hk_os_catch_signal(SIGTERM, on_term);
    if (hk_guard.on || hk_options.trace_ring != 0)
        hk_last_words = last_words;
    if (hk_options.trace_ring != 0)
        hk_os_catch_signal(SIGUSR2, on_request);
    bool catches = hk_options.trace_ring != 0 || hk_options.core == HK_CORE_LIVE;
    for (unsigned i = 0; catches && i < sizeof crashes / sizeof crashes[0]; i++)
        hk_os_catch_signal(crashes[i], on_crash);
}
