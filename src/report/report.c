/* Collects the figures of a report, and prints the line about an allocation that failed. */
#include "report/report.h"

size_t hk_resident_now(size_t *virtual_bytes)
{
    char text[128];
    const char *space = hk_os.read_file("/proc/self/statm", text, sizeof text) > 0 ? strchr(text, ' ') : NULL;
    if (space == NULL)
        return 0;
    *virtual_bytes = hk_number_in(text) * hk_system_page();
    return hk_number_in(space + 1) * hk_system_page();
}

static struct hk_process this_process(void)
{
    struct hk_process process = {
        .id = hk_os.process_id(),
        .parent = hk_os_parent_id(),
        .address_limit = hk_os.address_limit(),
        .data_limit = hk_os_data_limit(),
    };
    hk_os.read_file("/proc/self/comm", process.command, sizeof process.command);
    process.command[strcspn(process.command, "\n")] = 0;
    process.resident_bytes = hk_resident_now(&process.virtual_bytes);
    return process;
}

static struct hk_report desk HK_COLD_DATA;
static _Atomic bool xdesk_taken;

struct hk_report *hk_report_open(void)
{
    bool taken = atomic_exchange_explicit(&xdesk_taken, true, memory_order_acquire);
    return taken ? hk_os.map(hk_in_system_pages(sizeof desk)) : &desk;
}

void hk_report_close(struct hk_report *report)
{
    if (report == &desk)
        hk_store_release(xdesk_taken, false);
    else
        hk_os.unmap(report, hk_in_system_pages(sizeof *report));
}

void hk_report_fork_child(void) { hk_store(xdesk_taken, false); }

void hk_report_take(struct hk_report *report, uint64_t started_ms)
{
    report->process = this_process();
    report->process.running_ms = hk_os.clock_ms() - started_ms;
    hk_heap_stats_take(&report->heap_stats);
    hk_rss_stats_take(&report->rss_stats, &report->heap_stats);
    hk_live_samples_take(&report->live_samples);
    report->sites_shown = hk_sites_top(report->sites, HK_REPORT_SITES);
}

unsigned hk_hit_rate(const struct hk_class_stats *class_stats)
{
    uint64_t misses = hk_min(class_stats->misses, class_stats->served);
    double hits = (double)(class_stats->served - misses);
    return misses == 0 ? HK_HIT_RATE_ONE : (unsigned)(hits * HK_HIT_RATE_ONE / (double)class_stats->served);
}

void hk_report_add_limit(struct hk_text *text, const char *name, size_t limit, const char *none)
{
    limit == SIZE_MAX ? hk_text_add(text, "%s%s", name, none) : hk_text_add(text, "%s%zu", name, limit);
}

/* Prints no RSS statistics, because the program waits, and reading all mappings takes long. */
HK_COLD void hk_report_out_of_memory(size_t requested)
{
    static atomic_flag reported = ATOMIC_FLAG_INIT;
    static struct hk_heap_stats heap_stats HK_COLD_DATA;
    if (!hk_options.oom_report || atomic_flag_test_and_set(&reported))
        return;
    struct hk_process process = this_process();
    struct hk_text text = {.fd = HK_STDERR};
    hk_heap_stats_take(&heap_stats);
    hk_text_add(&text, "hakmem: out of memory: %zu bytes refused (ENOMEM)", requested);
    if (hk_load(hk_footprint.xby_limit))
        hk_text_add(&text, " by HAKMEM_LIMIT=%lu", hk_options.limit);
    hk_report_add_limit(&text, "; address limit ", process.address_limit, "none");
    hk_report_add_limit(&text, ", data limit ", process.data_limit, "none");
    hk_text_add(&text, ", virtual %zu, resident %zu, mapped %zu", process.virtual_bytes, process.resident_bytes,
                heap_stats.mapped);
    for (unsigned part = 0; part < HK_PARTS; part++)
        if (hk_part_shows(&heap_stats, part))
            hk_text_add(&text, "%s%s %zu", part == 0 ? " (" : ", ", hk_part_rows[part].name, heap_stats.parts[part]);
    hk_text_add(&text, "), served %s%lu", heap_stats.counted ? "" : "at least ", heap_stats.mallocs);
    for (unsigned i = 0; i < HK_STAT_ROWS; i++)
        if (heap_stats.counts[i] != 0)
            hk_text_add(&text, ", %s %lu", hk_stat_rows[i].name, heap_stats.counts[i]);
    hk_text_add(&text, "\n");
    hk_text_flush(&text);
}
