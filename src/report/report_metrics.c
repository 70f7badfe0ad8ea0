/* Writes a report as OpenMetrics. */
#include "report/report.h"

/* A family consists of the samples of one figure. The name of a family ends in the unit if the unit is bytes. Other families have no unit. Each
 * sample names its process, so that one folder can hold the files of many processes. */
struct family {
    const char *group, *name, *kind, *unit, *meaning;
};

struct sheet {
    struct hk_text text, labels; /* each sample begins with these labels */
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
    const char *const keys[] = {"TYPE", "UNIT", "HELP"}, *const values[] = {family->kind, family->unit, family->unit};
    for (unsigned i = 0; i < 3; i++) {
        if (i == 1 && !is_measured(family->unit))
            continue;
        hk_text_add(&sheet->text, "# %s ", keys[i]);
        add_family_name(&sheet->text, family);
        hk_text_add(&sheet->text, " %s%s%s\n", values[i], i == 2 ? ": " : "", i == 2 ? family->meaning : "");
    }
}

/* Begins a sample. The caller adds further labels, each after a comma, then "}" and the value. */
static void begin_sample(struct sheet *sheet, const struct family *family)
{
    add_family_name(&sheet->text, family);
    hk_text_add(&sheet->text, "%s{%s", strcmp(family->kind, "counter") == 0 ? "_total" : "", sheet->labels.bytes);
}

static void add_single(struct sheet *sheet, struct family family, uint64_t value)
{
    begin_family(sheet, &family);
    begin_sample(sheet, &family);
    hk_text_add(&sheet->text, "} %lu\n", value);
}

/* Adds the value of a label. An underscore replaces each character that the format or a terminal would interpret. */
static void add_label(struct hk_text *text, const char *label)
{
    for (const char *at = label; *at != 0; at++)
        hk_text_add(text, "%c", *at < ' ' || *at > '~' || *at == '"' || *at == '\\' ? '_' : *at);
}

static void add_process(struct sheet *sheet, const struct hk_report *report)
{
    const struct hk_heap_stats *heap_stats = &report->heap_stats;
    const struct {
        struct family family;
        uint64_t value;
    } singles[] = {
        {{"", "mallocs", "counter", "calls", "allocations by any function"}, heap_stats->mallocs},
        {{"", "frees", "counter", "calls", "blocks freed"}, heap_stats->frees},
        {{"", "threads", "gauge", "threads", "threads that have a tcache"}, heap_stats->threads},
        {{"process_", "resident", "gauge", "bytes", "resident memory of the process, by the kernel's count"},
         report->rss_stats.total},
        {{"process_", "virtual", "gauge", "bytes", "address space of the process"}, report->process.virtual_bytes},
        {{"process_", "rest", "gauge", "bytes", "resident memory outside HAKMEM: code, stacks, other mappings"},
         report->rss_stats.rest_of_process}};
    struct family version = {"", "build_info", "gauge", "builds", "version of HAKMEM"};
    begin_family(sheet, &version);
    begin_sample(sheet, &version);
    hk_text_add(&sheet->text, ",version=\"%s\"} 1\n", HK_VERSION);
    for (size_t i = 0; i < sizeof singles / sizeof singles[0]; i++)
        add_single(sheet, singles[i].family, singles[i].value);
}

static void add_parts(struct sheet *sheet, const char *name, const char *meaning,
                      const struct hk_heap_stats *heap_stats, const size_t parts[HK_PARTS])
{
    struct family family = {"", name, "gauge", "bytes", meaning};
    begin_family(sheet, &family);
    for (unsigned part = 0; part < HK_PARTS; part++)
        if (hk_part_shows(heap_stats, part)) {
            begin_sample(sheet, &family);
            hk_text_add(&sheet->text, ",part=\"%s\"} %zu\n", hk_part_rows[part].name, parts[part]);
        }
}

static void add_class_stat(struct sheet *sheet, const struct hk_heap_stats *heap_stats, unsigned row)
{
    const struct hk_row *stat = &hk_class_stat_rows[row];
    struct family of_classes = {"class_", stat->name, stat->kind, stat->unit, stat->meaning}, of_tiers = of_classes;
    of_tiers.group = "tier_";
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
    const struct hk_row *row = &hk_heap_figure_rows[i];
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
    const struct hk_heap_stats *heap_stats = &report->heap_stats;
    hk_text_init(&sheet.text, fd);
    hk_text_init(&sheet.labels, HK_NOWHERE);
    hk_text_add(&sheet.labels, "pid=\"%d\",command=\"", report->process.id);
    add_label(&sheet.labels, report->process.command);
    hk_text_add(&sheet.labels, "\"%c", 0);
    add_process(&sheet, report);
    add_parts(&sheet, "mapped", "writable memory that HAKMEM has mapped, by part", heap_stats, heap_stats->parts);
    add_parts(&sheet, "resident", "resident memory of HAKMEM, by part", heap_stats, report->rss_stats.all.parts);
    for (unsigned row = 0; row < HK_CLASS_STATS; row++)
        add_class_stat(&sheet, heap_stats, row);
    for (unsigned i = 0; i < HK_STAT_ROWS; i++) {
        const struct hk_stat_row *row = &hk_stat_rows[i];
        add_single(&sheet, (struct family){"", row->name, "counter", row->unit, row->meaning}, heap_stats->counts[i]);
    }
    for (unsigned i = 0; i < HK_HEAP_FIGURES; i++)
        add_heap_figure(&sheet, heap_stats, i);
    hk_text_add(&sheet.text, "# EOF\n");
    hk_text_flush(&sheet.text);
}
