/* Writes a report as OpenMetrics. */
#include "report/report.h"

/* A family holds the samples of one figure. Its name ends in "bytes" if this is the unit. A sample names its process, as a folder may have many. */
struct sheet {
    struct hk_text text, family; /* the name of the current family */
    const char *suffix;          /* the ending of the names of samples */
    const struct hk_report *report;
};

static void begin_family(struct sheet *sheet, const char *group, const char *name, const char *meaning,
                         const char *kind, const char *unit)
{
    const char *family = sheet->family.bytes;
    bool bytes = strcmp(unit, "bytes") == 0;
    sheet->suffix = strcmp(kind, "counter") == 0 ? "_total" : "";
    hk_text_init(&sheet->family, HK_NOWHERE);
    hk_text_add(&sheet->family, "hakmem_%s%s%s%c", group, name, bytes && !hk_ends_with(name, "bytes") ? "_bytes" : "",
                0);
    hk_text_add(&sheet->text, "# TYPE %s %s\n", family, kind);
    if (bytes)
        hk_text_add(&sheet->text, "# UNIT %s bytes\n", family);
    hk_text_add(&sheet->text, "# HELP %s %s: %s\n", family, unit, meaning);
}

/* Adds the value of a label. Writes an underscore instead of each character that the format or a terminal would interpret. */
static void add_label(struct hk_text *text, const char *label)
{
    for (const char *at = label; *at != 0; at++)
        hk_text_add(text, "%c", *at < ' ' || *at > '~' || *at == '"' || *at == '\\' ? '_' : *at);
}

/* Begins a sample. ADD_SAMPLE() also adds what follows: more labels, each after a comma, and then "}" and the value. */
static void begin_sample(struct sheet *sheet)
{
    hk_text_add(&sheet->text, "%s%s{pid=\"%d\",command=\"", sheet->family.bytes, sheet->suffix,
                sheet->report->process.id);
    add_label(&sheet->text, sheet->report->process.command);
    hk_text_add(&sheet->text, "\"");
}
#define ADD_SAMPLE(...) (begin_sample(sheet), hk_text_add(&sheet->text, __VA_ARGS__))

static void add_single(struct sheet *sheet, const char *name, const char *kind, const char *unit, const char *meaning,
                       uint64_t value)
{
    begin_family(sheet, "", name, meaning, kind, unit);
    ADD_SAMPLE("} %lu\n", value);
}

static void add_parts(struct sheet *sheet, const char *name, const char *meaning, const size_t parts[HK_PARTS])
{
    begin_family(sheet, "", name, meaning, "gauge", "bytes");
    for (unsigned part = 0; part < HK_PARTS; part++)
        if (hk_part_shows(&sheet->report->heap_stats, part))
            ADD_SAMPLE(",part=\"%s\"} %zu\n", hk_part_rows[part].name, parts[part]);
}

static void add_class_stat(struct sheet *sheet, const struct hk_row *row)
{
    const struct hk_heap_stats *heap_stats = &sheet->report->heap_stats;
    begin_family(sheet, "class_", row->name, row->meaning, row->kind, row->unit);
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        ADD_SAMPLE(",size=\"%u\",tier=\"%s\"} %lu\n", hk_classes[class].size, hk_tier_names[hk_classes[class].tier],
                   hk_row_value(row, &heap_stats->classes[class]));
    begin_family(sheet, "tier_", row->name, row->meaning, row->kind, row->unit);
    for (unsigned tier = 0; tier < HK_TIERS; tier++)
        ADD_SAMPLE(",tier=\"%s\"} %lu\n", hk_tier_names[tier], hk_row_value(row, &heap_stats->tiers[tier]));
}

static void add_heap_figure(struct sheet *sheet, const struct hk_row *row)
{
    const struct hk_heap_stats *heap_stats = &sheet->report->heap_stats;
    if (row->width == 0 || heap_stats->heap_lines_shown == 0)
        return;
    begin_family(sheet, "heap_", row->name, row->meaning, row->kind, row->unit);
    for (unsigned heap = 0; heap < heap_stats->heap_lines_shown; heap++) {
        const struct hk_heap_figures *line = &heap_stats->heap_lines[heap];
        ADD_SAMPLE(",heap=\"%u\",name=\"", line->number);
        add_label(&sheet->text, line->name);
        hk_text_add(&sheet->text, "\"} %lu\n", hk_row_value(row, line));
    }
}

void hk_report_metrics(int fd, const struct hk_report *report)
{
    const struct hk_heap_stats *heap_stats = &report->heap_stats;
    struct sheet of_report = {.text.fd = fd, .report = report}, *sheet = &of_report;
    begin_family(sheet, "", "build_info", "version of HAKMEM", "gauge", "builds");
    ADD_SAMPLE(",version=\"%s\"} 1\n", HK_VERSION);
    add_single(sheet, "mallocs", "counter", "calls", "allocations by any function", heap_stats->mallocs);
    add_single(sheet, "frees", "counter", "calls", "blocks freed", heap_stats->frees);
    add_single(sheet, "threads", "gauge", "threads", "threads that have a tcache", heap_stats->threads);
    add_single(sheet, "process_resident", "gauge", "bytes", "resident memory of the process, by the kernel's count",
               report->rss_stats.total);
    add_single(sheet, "process_virtual", "gauge", "bytes", "address space of the process",
               report->process.virtual_bytes);
    add_single(sheet, "process_rest", "gauge", "bytes", "resident memory outside HAKMEM: code, stacks, other mappings",
               report->rss_stats.rest_of_process);
    add_parts(sheet, "mapped", "writable memory that HAKMEM has mapped, by part", heap_stats->parts);
    add_parts(sheet, "resident", "resident memory of HAKMEM, by part", report->rss_stats.all.parts);
    for (unsigned row = 0; row < HK_CLASS_STATS; row++)
        add_class_stat(sheet, &hk_class_stat_rows[row]);
    for (unsigned i = 0; i < HK_STAT_ROWS; i++)
        add_single(sheet, hk_stat_rows[i].name, "counter", hk_stat_rows[i].unit, hk_stat_rows[i].meaning,
                   heap_stats->counts[i]);
    for (unsigned i = 0; i < HK_HEAP_FIGURES; i++)
        add_heap_figure(sheet, &hk_heap_figure_rows[i]);
    hk_text_add(&sheet->text, "# EOF\n");
    hk_text_flush(&sheet->text);
}
