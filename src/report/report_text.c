/* Writes a report, and the last events of the threads, as text. */
#include "report/report.h"
#include "tcache/tcache.h"

/* Adds a right-aligned number with one decimal and a suitable unit, such as "12.3 MiB". */
static void add_bytes(struct hk_text *text, uint64_t bytes, int width)
{
    static const char units[][4] = {"B  ", "KiB", "MiB", "GiB", "TiB"};
    unsigned unit = 0;
    uint64_t tenths = bytes * 10;
    for (; tenths >= 10240 && unit < 4; unit++)
        tenths /= 1024;
    /* The decimal and the unit (".3 MiB") take 6 columns of the width. */
    hk_text_add(text, "%*lu.%lu %s", width - 6, tenths / 10, tenths % 10, units[unit]);
}

static void text_part(struct hk_text *text, const char *name, size_t bytes, size_t resident, const char *meaning)
{
    hk_text_add(text, "  %-16s", name);
    add_bytes(text, bytes, 12);
    add_bytes(text, resident, 13);
    hk_text_add(text, "  %s\n", meaning);
}

static void text_parts(struct hk_text *text, const struct hk_report *report)
{
    const struct hk_rss_stats *rss_stats = &report->rss_stats;
    size_t resident = 0;
    hk_text_add(text, "\nwhere the memory is      mapped     resident\n");
    for (unsigned part = 0; part < HK_PARTS; part++) {
        resident += rss_stats->all.parts[part];
        if (hk_part_shows(&report->heap_stats, part))
            text_part(text, hk_part_rows[part].name, report->heap_stats.parts[part], rss_stats->all.parts[part],
                      hk_part_rows[part].meaning);
    }
    text_part(text, "= mapped", report->heap_stats.mapped, resident, "writable memory that HAKMEM has mapped");
    hk_text_add(text, "  rest_of_process             ");
    add_bytes(text, rss_stats->rest_of_process, 13);
    hk_text_add(text, "  code, stacks, other mappings\n");
}

static void text_row(struct hk_text *text, const struct hk_class_stats *row, bool counted)
{
    unsigned rate = hk_hit_rate(row);
    if (counted)
        hk_text_add(text, "%13lu%5u.%u%u %%", row->served, rate / 100, rate / 10 % 10, rate % 10);
    else
        hk_text_add(text, "%13lu         -", row->served);
    add_bytes(text, row->live, 13);
    add_bytes(text, row->rounding, 13);
    add_bytes(text, row->in_bins, 13);
    add_bytes(text, row->free_in_slabs, 13);
    hk_text_add(text, "%9lu\n", row->slabs);
}

static void text_classes(struct hk_text *text, const struct hk_heap_stats *heap_stats)
{
    static const char heading[] =
        "\n%s       served      hits         live     rounding      in bins     in slabs    slabs\n";
    hk_text_add(text, heading, "tier            ");
    for (unsigned tier = 0; tier < HK_TIERS; tier++) {
        hk_text_add(text, "%-16s", hk_tier_names[tier]);
        text_row(text, &heap_stats->tiers[tier], heap_stats->counted);
    }
    hk_text_add(text, heading, "class   tier    ");
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        if (hk_class_shows(heap_stats, class)) {
            hk_text_add(text, "%7u %-8s", hk_classes[class].size, hk_tier_names[hk_classes[class].tier]);
            text_row(text, &heap_stats->classes[class], heap_stats->counted);
        }
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        const struct hk_class *row = &hk_classes[class];
        uint32_t usual = hk_usual_sizes[class], blocks = row->slab_bytes / row->size, before = row->slab_bytes / usual;
        if (row->size != usual)
            hk_text_add(text,
                        "class %u instead of %u: %u blocks a slab instead of %u, so its slabs are %lu bytes smaller\n",
                        row->size, usual, blocks, before,
                        heap_stats->classes[class].slabs * row->slab_bytes * (blocks - before) / before);
    }
}

/* Adds a table with the misses of each class, with how many of these misses each source of blocks served, and with the bins of the class. */
static void text_refills(struct hk_text *text, const struct hk_heap_stats *heap_stats)
{
    hk_text_add(text, "\nclass          misses = from depots  + own slabs    + remote   + adopted "
                      "+ new slabs hot bins    warm\n");
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        const struct hk_class_stats *row = &heap_stats->classes[class];
        if (row->misses != 0)
            hk_text_add(text, "%7u%14lu%14lu%13lu%12lu%12lu%12lu%9lu%8lu\n", hk_classes[class].size, row->misses,
                        row->refills_depot, row->refills_own, row->refills_drained, row->refills_adopted,
                        row->refills_new, row->bins_hot, row->bins_warm);
    }
}

static void text_sites(struct hk_text *text, const struct hk_report *report)
{
    if (report->sites_shown > 0)
        hk_text_add(text, "\ncall site       blocks up to          live          ever  lifetime, ms  rule  "
                          "               saved       wasted\n");
    for (const struct hk_site_line *line = report->sites; line < report->sites + report->sites_shown; line++) {
        hk_text_add(text, "  0x%zx", (size_t)line->site->stack[0]);
        add_bytes(text, (size_t)1 << line->site->size_bits, 14);
        add_bytes(text, line->live, 14);
        add_bytes(text, line->bytes, 14);
        hk_text_add(text, "%13lu  %-13s", line->lifetime_ms, hk_site_rule_names[line->rule]);
        add_bytes(text, line->saved, 13);
        add_bytes(text, line->wasted, 13);
        hk_text_add(text, "\n");
    }
}

static void text_heaps(struct hk_text *text, const struct hk_heap_stats *heap_stats)
{
    if (heap_stats->heap_lines_shown == 0)
        return;
    hk_text_add(text, "\n%zu heaps of the program's own\n", heap_stats->heaps);
    hk_text_add(text, "      physical        limit         peak         live       cached       blocks       served  "
                      "refused  resets  name\n");
    for (unsigned heap = 0; heap < heap_stats->heap_lines_shown; heap++) {
        const struct hk_heap_figures *line = &heap_stats->heap_lines[heap];
        hk_text_add(text, "  ");
        for (unsigned i = 0; i < HK_HEAP_FIGURES; i++) {
            const struct hk_row *row = &hk_heap_figure_rows[i];
            if (i == HK_HEAP_FIGURE_limit && line->limit == 0)
                hk_text_add(text, "         none");
            else if (row->width != 0 && strcmp(row->unit, "bytes") == 0)
                add_bytes(text, hk_row_value(row, line), row->width);
            else if (row->width != 0)
                hk_text_add(text, "%*lu", row->width, hk_row_value(row, line));
        }
        hk_text_add(text, "  %.300s\n", line->name);
    }
}

static void text_option(void *context, const char *name, const char *string, uint64_t number)
{
    if (string != NULL)
        hk_text_add(context, "  %-20s%.4096s\n", name, string);
    else
        hk_text_add(context, "  %-20s%lu\n", name, number);
}

void hk_report_text(int fd, const struct hk_report *report)
{
    const struct hk_process *process = &report->process;
    struct hk_text text = {.fd = fd};
    hk_text_add(&text, "HAKMEM %s, process %d (%.300s), after %lu ms\n\n", HK_VERSION, process->id, process->command,
                process->running_ms);
    const char *least = report->heap_stats.counted ? "" : "at least ";
    hk_text_add(&text, "served %s%lu allocations and %s%lu frees, %zu threads now\n", least, report->heap_stats.mallocs,
                least, report->heap_stats.frees, report->heap_stats.threads);
    hk_text_add(&text, "resident");
    add_bytes(&text, report->rss_stats.total, 12);
    hk_text_add(&text, "  the whole process, by the kernel's count\n");
    text_parts(&text, report);
    text_classes(&text, &report->heap_stats);
    text_refills(&text, &report->heap_stats);
    hk_text_add(&text, "\ncounters\n");
    for (unsigned i = 0; i < HK_STAT_ROWS; i++)
        hk_text_add(&text, "  %-20s%14lu %s: %s\n", hk_stat_rows[i].name, report->heap_stats.counts[i],
                    hk_stat_rows[i].unit, hk_stat_rows[i].meaning);
    text_heaps(&text, &report->heap_stats);
    text_sites(&text, report);
    hk_text_add(&text, "\npolicy: %s\n", hk_phase_names[hk_policy_phase()]);
    for (enum hk_knob knob = 0; knob < HK_KNOBS; knob++)
        hk_text_add(&text, "  %-20s%lu %s\n", hk_knob_rows[knob].name, hk_policy_value(knob), hk_knob_rows[knob].unit);
    hk_text_add(&text, "\noptions\n");
    hk_options_visit(text_option, &text);
    hk_text_flush(&text);
}

static void write_event(void *context, const struct hk_event_seen *event)
{
    enum { MICROSECONDS = 1000000 };
    struct hk_text *text = context;
    const struct hk_event_row *row = &hk_event_rows[event->kind];
    uint64_t microseconds = event->clock_ns / 1000;
    hk_text_add(text, "  %lu.", microseconds / MICROSECONDS); /* seconds since boot */
    for (uint64_t place = MICROSECONDS / 10; place > 0; place /= 10)
        hk_text_add(text, "%u", (unsigned)(microseconds / place % 10));
    hk_text_add(text, " %s %lu %s", row->name, event->amount, row->unit);
    if (event->address != 0)
        hk_text_add(text, " 0x%zx", (size_t)event->address);
    hk_text_add(text, "\n");
}

void hk_last_events_write(int fd)
{
    struct hk_text text = {.fd = fd};
    const struct hk_tcache *self = hk_tcache_self();
    hk_text_add(&text, "hakmem: last events of each thread, the oldest first\n");
    for (uint32_t id = hk_owner_next(HK_FIRST_OWNER); id < hk_owner_end(); id = hk_owner_next(id + 1)) {
        const struct hk_tcache *cache = hk_tcache_by_id(id);
        hk_text_add(&text, "thread %u%s\n", id, cache == self ? " (this one)" : cache->alive ? "" : " (ended)");
        hk_ring_read(&cache->owner.ring, write_event, &text);
    }
    hk_text_add(&text, "no thread\n");
    hk_ring_read(&hk_ring_shared, write_event, &text);
    hk_text_add(&text, "hakmem: end of events\n");
    hk_text_flush(&text);
}
