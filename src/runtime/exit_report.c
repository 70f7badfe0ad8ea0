#include "runtime/exit_report.h"

#include <signal.h>
#include <string.h>

#include "base/bits.h"
#include "base/message.h"
#include "os/os.h"
#include "policy/options.h"
#include "report/report.h"
#include "runtime/heap_dumps.h"
#include "runtime/named_file.h"
#include "tcache/tcache.h"

enum {
    SIGNAL_SEEN_MS = 200,
};

static struct {
    uint64_t started_ms;     /* HAKMEM's start, in this process or an ancestor */
    uint64_t last_ms;        /* the background thread's last report */
    _Atomic bool xrequested; /* by a signal */
    _Atomic bool xbusy;      /* the background thread writes, or must not write any more */
} reports;

void hk_reports_begin(void)
{
    uint64_t now = hk_os.clock_ms();
    if (reports.started_ms == 0)
        reports.started_ms = now;
    reports.last_ms = now;
    hk_store(reports.xrequested, false);
    hk_store(reports.xbusy, false);
    hk_report_fork_child();
    hk_heap_dumps_begin(now);
}

void hk_reports_check(void)
{
    if (hk_options.report != NULL || (hk_options.report_every | hk_options.report_signal) == 0)
        return;
    hk_message("option %s: no report is written, for HAKMEM_REPORT names no file",
               hk_options.report_every != 0 ? "report_every" : "report_signal");
}

static bool has_ending(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static bool write_report(int fd, const char *path)
{
    struct hk_report *report = hk_report_open();
    if (report == NULL)
        return false;
    hk_report_take(report, reports.started_ms);
    if (has_ending(path, ".json"))
        hk_report_json(fd, report);
    else if (has_ending(path, ".prom"))
        hk_report_metrics(fd, report);
    else
        hk_report_text(fd, report);
    hk_report_close(report);
    return true;
}

/* False if no temporary file can be created in its folder. */
static bool write_beside(const char *path)
{
    struct hk_text beside;
    hk_text_init(&beside, HK_NOWHERE);
    hk_text_add(&beside, "%s.%d.tmp", path, hk_os.process_id());
    if (!hk_path_end(&beside) || !hk_os.is_replaceable(path))
        return false;
    int fd = hk_os.create(beside.bytes);
    if (fd < 0)
        return false;
    bool written = write_report(fd, path);
    hk_os.close(fd);
    return written && hk_os.rename(beside.bytes, path);
}

static bool write_in_place(const char *path)
{
    int fd = hk_os.create(path);
    if (fd < 0)
        return false;
    bool written = write_report(fd, path);
    hk_os.close(fd);
    return written;
}

static bool is_stderr(const char *path) { return strcmp(path, "-") == 0; }

static bool write_to_file(const char *path) { return write_beside(path) || write_in_place(path); }

bool hk_report_write(const char *path, int standard_error)
{
    struct hk_text real_path;
    if (is_stderr(path))
        return write_report(standard_error, path);
    return hk_named_path(&real_path, path) && write_to_file(real_path.bytes);
}

static void write_wanted(void)
{
    struct hk_text path;
    const char *name = hk_options.report;
    bool written = is_stderr(name) ? write_report(HK_STDERR, name)
                                   : hk_option_path(&path, name, ".json") && write_to_file(path.bytes);
    if (!written)
        hk_message("the report cannot be written to \"%s\"", name);
}

static bool reports_while_running(void)
{
    return hk_options.report != NULL && (hk_options.report_every != 0 || hk_options.report_signal != 0);
}

bool hk_reports_wanted(void) { return reports_while_running() || hk_heap_dumps_wanted(); }

static void note_signal(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    (void)context;
    hk_store(reports.xrequested, true);
}

/* The faulting instruction would raise such a signal again whenever its handler returns. */
static bool is_fault(int number)
{
    return number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGFPE;
}

void hk_reports_listen(void)
{
    int number = (int)hk_options.report_signal;
    if (number != 0 && hk_options.report != NULL && (is_fault(number) || !hk_os.catch_signal(number, note_signal)))
        hk_message("option report_signal: signal %d is the program's own or cannot be handled; it triggers no report",
                   number);
}

static uint64_t wait_until_due(uint64_t now_ms)
{
    uint64_t until_signal = hk_options.report_signal != 0 ? SIGNAL_SEEN_MS : UINT64_MAX;
    if (hk_options.report_every == 0)
        return until_signal;
    uint64_t due = reports.last_ms + hk_options.report_every;
    return hk_min(until_signal, due - hk_min(due, now_ms));
}

static void write_if_due(uint64_t now_ms)
{
    bool due = hk_options.report_every != 0 && now_ms - reports.last_ms >= hk_options.report_every;
    bool requested = atomic_exchange_explicit(&reports.xrequested, false, memory_order_relaxed);
    if (!due && !requested)
        return;
    write_wanted();
    reports.last_ms = now_ms;
}

uint64_t hk_report_if_due(uint64_t now_ms)
{
    if (atomic_exchange_explicit(&reports.xbusy, true, memory_order_acquire))
        return UINT64_MAX;
    uint64_t until_due = hk_heap_dump_if_due(now_ms);
    if (reports_while_running()) {
        write_if_due(now_ms);
        until_due = hk_max(1, hk_min(until_due, wait_until_due(now_ms)));
    }
    hk_store_release(reports.xbusy, false);
    return until_due;
}

/* Waits for a second at most: a disk that hangs must not delay the end of the program. */
static void stop_background_reports(void)
{
    for (unsigned waits = 0; hk_reports_wanted() && waits < HK_PAUSES_A_SECOND &&
                             atomic_exchange_explicit(&reports.xbusy, true, memory_order_acquire);
         waits++)
        hk_os.pause();
}

void hk_exit_profile(void)
{
    stop_background_reports();
    hk_heap_dump_at_exit();
}

void hk_exit_report(void)
{
    hk_exit_profile();
    if (hk_options.report != NULL)
        write_wanted();
}

HK_COLD void hk_first_refusal_report(size_t requested)
{
    static atomic_flag reported = ATOMIC_FLAG_INIT;
    if (hk_options.oom_report && !atomic_flag_test_and_set(&reported))
        hk_report_out_of_memory(requested, reports.started_ms);
}

bool hk_report_may_take_locks(void)
{
    const struct hk_tcache *cache = hk_tcache_self();
    if (cache != NULL &&
        !(hk_lock_comes_free(&cache->owner.slab_lists_lock) && hk_lock_comes_free(&cache->owner.drain_lock)))
        return false;
    return hk_locks_come_free();
}
