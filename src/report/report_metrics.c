/* Writes a report as OpenMetrics. */
#include "report/report.h"

#include <string.h>

#include "base/message.h"

/* OpenMetrics, which collectors of Prometheus's older text format read too: each sample names its process, so that the files of many
 * processes can be collected from one folder. A family's name ends in its unit; a family that counts things has no unit. */
struct family {
    const char *group, *name, *kind, *unit, *meaning;
};

/* The text, and the labels that each sample begins with. */
struct sheet {
    struct hk_text text;
    struct hk_text labels;
};

static bool is_measured(const char *unit) { return strcmp(unit, "bytes") == 0; }

bool hk_ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static void add_family_name(struct hk_text *text, const struct family *family)
{
    hk_text_add(text, "hakmem_%s%s", family->group, family->name);
    if (is_measured(family->unit) && !hk_ends_with(family->name, family->unit))
        hk_text_add(text, "_%s", family->unit);
}

static void begin_family(struct sheet *sheet, const struct family *family)
{
    struct hk_text *text = &sheet->text;
    hk_text_add(text, "# TYPE ");
    add_family_name(text, family);
    hk_text_add(text, " %s\n", family->kind);
    if (is_measured(family->unit)) {
        hk_text_add(text, "# UNIT ");
        add_family_name(text, family);
        hk_text_add(text, " %s\n", family->unit);
    }
    hk_text_add(text, "# HELP ");
    add_family_name(text, family);
    hk_text_add(text, " %s: %s\n", family->unit, family->meaning);
}

/* The caller appends labels, each after a comma, and the value. */
static void begin_sample(struct sheet *sheet, const struct family *family)
{
    add_family_name(&sheet->text, family);
    hk_text_add(&sheet->text, "%s{%s", strcmp(family->kind, "counter") == 0 ? "_total" : "", sheet->labels.bytes);
}

static void add_single(struct sheet *sheet, const char *group, const char *name, const char *kind, const char *unit,
                       const char *meaning, uint64_t value)
{
    struct family family = {group, name, kind, unit, meaning};
    begin_family(sheet, &family);
    begin_sample(sheet, &family);
    hk_text_add(&sheet->text, "} %lu\n", value);
}

/* The text of a label. A character that the format or a terminal would take for something else becomes an underscore. */
static void add_label(struct hk_text *text, const char *label)
{
    for (const char *at = label; *at != 0; at++)
        hk_text_add(text, "%c", *at < ' ' || *at > '~' || *at == '"' || *at == '\\' ? '_' : *at);
}

static void add_labels(struct hk_text *labels, const struct hk_process *process)
{
    hk_text_init(labels, HK_NOWHERE);
    hk_text_add(labels, "pid=\"%d\",command=\"", process->id);
    add_label(labels, process->command);
    hk_text_add(labels, "\"%c", 0);
}

static void add_process(struct sheet *sheet, const struct hk_report *report)
{
    const struct hk_heap_stats *heap_stats = &report->heap_stats;
    struct family version = {"", "build_info", "gauge", "builds", "version of HAKMEM"};
    begin_family(sheet, &version);
    begin_sample(sheet, &version);
    hk_text_add(&sheet->text, ",version=\"%s\"} 1\n", HK_VERSION);
    add_single(sheet, "", "mallocs", "counter", "calls", "allocations by any function", heap_stats->mallocs);
    add_single(sheet, "", "frees", "counter", "calls", "blocks freed", heap_stats->frees);
    add_single(sheet, "", "threads", "gauge", "threads", "threads that have a tcache", heap_stats->threads);
    add_single(sheet, "process_", "resident", "gauge", "bytes", "resident memory of the process, by the kernel's count",
               report->rss_stats.total);
    add_single(sheet, "process_", "virtual", "gauge", "bytes", "address space of the process",
               report->process.virtual_bytes);
    add_single(sheet, "process_", "rest", "gauge", "bytes",
               "resident memory outside HAKMEM: code, stacks, other mappings", report->rss_stats.rest_of_process);
}

static void add_parts(struct sheet *sheet, struct family family, const struct hk_heap_stats *heap_stats,
                      const size_t parts[HK_PARTS])
{
    begin_family(sheet, &family);
    for (unsigned part = 0; part < HK_PARTS; part++) {
        if (!hk_part_shows(heap_stats, part))
            continue;
        begin_sample(sheet, &family);
        hk_text_add(&sheet->text, ",part=\"%s\"} %zu\n", hk_part_rows[part].name, parts[part]);
    }
}

static void add_class_stat(struct sheet *sheet, const struct hk_heap_stats *heap_stats, unsigned row)
{
    const struct hk_class_stat_row *class_stat = &hk_class_stat_rows[row];
    struct family of_classes = {"class_", class_stat->name, class_stat->kind, class_stat->unit, class_stat->meaning};
    struct family of_tiers = {"tier_", class_stat->name, class_stat->kind, class_stat->unit, class_stat->meaning};
    begin_family(sheet, &of_classes);
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        begin_sample(sheet, &of_classes);
        hk_text_add(&sheet->text, ",size=\"%u\",tier=\"%s\"} %lu\n", hk_classes[class].size,
                    hk_tier_name(hk_classes[class].tier), hk_class_stat(&heap_stats->classes[class], row));
    }
    begin_family(sheet, &of_tiers);
    for (unsigned tier = 0; tier < HK_TIERS; tier++) {
        begin_sample(sheet, &of_tiers);
        hk_text_add(&sheet->text, ",tier=\"%s\"} %lu\n", hk_tier_name(tier),
                    hk_class_stat(&heap_stats->tiers[tier], row));
    }
}

static void add_heap_figure(struct sheet *sheet, const struct hk_heap_stats *heap_stats, unsigned i)
{
    const struct hk_heap_figure_row *row = &hk_heap_figure_rows[i];
    struct family family = {"heap_", row->name, row->kind, row->unit, row->meaning};
    if (row->width == 0 || heap_stats->heap_lines_shown == 0)
        return;
    begin_family(sheet, &family);
    for (unsigned heap = 0; heap < heap_stats->heap_lines_shown; heap++) {
        const struct hk_heap_figures *line = &heap_stats->heap_lines[heap];
        begin_sample(sheet, &family);
        hk_text_add(&sheet->text, ",heap=\"%u\",name=\"", line->number);
        add_label(&sheet->text, line->name);
        hk_text_add(&sheet->text, "\"} %lu\n", hk_heap_figure(line, i));
    }
}

void hk_report_metrics(int fd, const struct hk_report *report)
{
    struct sheet sheet;
    hk_text_init(&sheet.text, fd);
    add_labels(&sheet.labels, &report->process);
    add_process(&sheet, report);
    add_parts(&sheet,
              (struct family){"", "mapped", "gauge", "bytes", "writable memory that HAKMEM has mapped, by part"},
              &report->heap_stats, report->heap_stats.parts);
    add_parts(&sheet, (struct family){"", "resident", "gauge", "bytes", "resident memory of HAKMEM, by part"},
              &report->heap_stats, report->rss_stats.all.parts);
    for (unsigned row = 0; row < HK_CLASS_STATS; row++)
        add_class_stat(&sheet, &report->heap_stats, row);
    for (unsigned i = 0; i < HK_STAT_ROWS; i++)
        add_single(&sheet, "", hk_stat_rows[i].name, "counter", hk_stat_rows[i].unit, hk_stat_rows[i].meaning,
                   report->heap_stats.counts[i]);
    for (unsigned i = 0; i < HK_HEAP_FIGURES; i++)
        add_heap_figure(&sheet, &report->heap_stats, i);
    hk_text_add(&sheet.text, "# EOF\n");
    hk_text_flush(&sheet.text);
}
