/* Writes a report as JSON. */
#include "report/report.h"
#include "os/maps.h"

struct json {
    struct hk_text text;
    const struct hk_report *report;
    const char *separator; /* text that is written before the next row of the current list */
};
#define ADD(...) hk_text_add(&json->text, __VA_ARGS__)

/* Writes a string. A path may contain bytes that are not UTF-8. These become U+FFFD, because readers would otherwise reject the whole report. */
static void json_string(struct json *json, const char *s)
{
    ADD("\"");
    for (; *s != 0; s++) {
        size_t bytes = hk_utf8_bytes(s);
        if (bytes == 0)
            ADD("\\ufffd");
        else if (*s == '"' || *s == '\\')
            ADD("\\%c", *s);
        else if ((unsigned char)*s < 0x20)
            ADD("\\u00%c%c", '0' + (*s >> 4), "0123456789abcdef"[*s & 15]);
        else
            for (size_t left = bytes; left > 0; left--)
                ADD("%c", left > 1 ? *s++ : *s);
    }
    ADD("\"");
}

static void json_parts(struct json *json, const size_t parts[HK_PARTS])
{
    for (unsigned part = 0; part < HK_PARTS; part++)
        if (hk_part_shows(&json->report->heap_stats, part))
            ADD("%s\"%s\": %zu", part > 0 ? ", " : "", hk_part_rows[part].name, parts[part]);
}

/* Writes an array of objects. `write` writes the members of object i. If `shows` is not NULL, leaves out objects for which `shows` returns false. */
static void json_array(struct json *json, const char *name, unsigned count,
                       bool (*shows)(const struct hk_heap_stats *heap_stats, unsigned i),
                       void (*write)(struct json *json, unsigned i))
{
    ADD(",\n \"%s\": [", name);
    json->separator = "\n  ";
    for (unsigned i = 0; i < count; i++) {
        if (shows != NULL && !shows(&json->report->heap_stats, i))
            continue;
        ADD("%s{", json->separator);
        json->separator = ",\n  ";
        write(json, i);
        ADD("}");
    }
    ADD("]");
}

static void json_resident_class(struct json *json, unsigned class)
{
    const struct hk_class_stats *row = &json->report->rss_stats.classes[class];
    ADD("\"size\": %u, \"live\": %lu, \"rounding\": %lu, \"in_bins\": %lu, ", hk_classes[class].size, row->live,
        row->rounding, row->in_bins);
    ADD("\"remote\": %lu, \"free_in_slabs\": %lu, \"pinned\": %zu, \"tails\": %lu", row->remote, row->free_in_slabs,
        json->report->rss_stats.all.pinned[class], row->tails);
}

/* Returns the bytes that a file of the kernel names in KiB after the key, or 0. Is not inlined, so that its buffer takes stack only during the call. */
static HK_NOINLINE size_t bytes_in(const char *path, const char *key)
{
    char line[64];
    struct hk_lines lines;
    size_t bytes = 0;
    hk_lines_open(&lines, path);
    while (hk_lines_next(&lines, line, sizeof line))
        if (strncmp(line, key, strlen(key)) == 0)
            bytes = hk_number_in(line + strcspn(line, "0123456789")) * HK_KIB;
    return bytes;
}

static void json_memory(struct json *json)
{
    const struct hk_process *process = &json->report->process;
    const struct hk_heap_stats *heap_stats = &json->report->heap_stats;
    const struct hk_rss_stats *rss_stats = &json->report->rss_stats;
    const struct hk_resident_sums *all = &rss_stats->all;
    ADD(",\n \"resident\": %zu, \"resident_statm\": %zu", rss_stats->total, process->resident_bytes);
    ADD(", \"resident_peak\": %zu, \"resident_pss\": %zu,\n \"resident_parts\": {",
        bytes_in("/proc/self/status", "VmHWM:"), bytes_in("/proc/self/smaps_rollup", "Pss:"));
    json_parts(json, all->parts);
    ADD(", \"rest_of_process\": %zu}", rss_stats->rest_of_process);
    json_array(json, "resident_classes", HK_CLASSES, hk_class_shows, json_resident_class);
    ADD(",\n \"resident_idle\": {\"ageing\": %zu, \"of_huge_pages\": %zu}", all->parts[HK_PART_idle] - all->idle_huge,
        all->idle_huge);
    ADD(",\n \"resident_rest\": {\"files\": %zu, \"anonymous\": %zu}", all->rest_files, all->rest);
    ADD(",\n \"virtual\": %zu, \"limits\": {", process->virtual_bytes);
    hk_report_add_limit(&json->text, "\"address\": ", process->address_limit, "null");
    hk_report_add_limit(&json->text, ", \"data\": ", process->data_limit, "null");
    ADD("},\n \"mapped\": {\"total\": %zu, \"parts\": {", heap_stats->mapped);
    json_parts(json, heap_stats->parts);
    ADD("}},\n \"idle\": {\"dirty\": %zu, \"clean\": %zu}", heap_stats->idle_dirty, heap_stats->idle_clean);
}

static void json_class_stats(struct json *json, const struct hk_class_stats *class_stats)
{
    unsigned rate = hk_hit_rate(class_stats);
    for (unsigned row = 0; row < HK_CLASS_STATS; row++)
        ADD(", \"%s\": %lu", hk_class_stat_rows[row].name, hk_row_value(&hk_class_stat_rows[row], class_stats));
    if (json->report->heap_stats.counted)
        ADD(", \"hit_rate\": %u.%u%u%u%u", rate / 10000, rate / 1000 % 10, rate / 100 % 10, rate / 10 % 10, rate % 10);
}

static void json_tier(struct json *json, unsigned tier)
{
    ADD("\"tier\": \"%s\"", hk_tier_names[tier]);
    json_class_stats(json, &json->report->heap_stats.tiers[tier]);
}

static void json_class(struct json *json, unsigned class)
{
    ADD("\"size\": %u, \"tier\": \"%s\"", hk_classes[class].size, hk_tier_names[hk_classes[class].tier]);
    json_class_stats(json, &json->report->heap_stats.classes[class]);
}

static void json_thread_line(struct json *json, unsigned i)
{
    const struct hk_thread_line *line = &json->report->heap_stats.thread_lines[i];
    ADD("\"thread\": %d, \"allocations\": %lu, \"bins\": %zu, \"depots\": %zu", line->thread, line->served,
        line->in_bins - line->in_depots, line->in_depots);
}

static void json_frames(struct json *json, const struct hk_site *site)
{
    ADD(", \"block\": %zu, \"frames\": [", (size_t)1 << site->size_bits);
    for (unsigned i = 0; i < site->depth; i++)
        ADD("%s%zu", i > 0 ? ", " : "", (size_t)site->stack[i]);
    ADD("]");
}

static void json_site(struct json *json, unsigned i)
{
    const struct hk_site_line *line = &json->report->sites[i];
    ADD("\"site\": %zu, \"live\": %lu, \"bytes\": %lu, ", (size_t)line->site->stack[0], line->live, line->bytes);
    ADD("\"lifetime_ms\": %lu, \"rule\": \"%s\", ", line->lifetime_ms, hk_site_rule_names[line->rule]);
    ADD("\"saved\": %lu, \"wasted\": %lu", line->saved, line->wasted);
    json_frames(json, line->site);
}

static void json_live_samples(struct json *json, const struct hk_live_samples_line *line)
{
    ADD("\"live_count\": %lu, \"live_bytes\": %lu, \"pinned_bytes\": %lu", line->blocks, line->bytes, line->pinned);
}

static void json_stack(struct json *json, unsigned n)
{
    const struct hk_live_samples_line *line = &json->report->live_samples.stacks[n];
    json_live_samples(json, line);
    json_frames(json, line->site);
}

/* Writes the sampled stacks, and the lines of /proc/self/maps that describe code in files, so that a reader can find the functions of the stacks. */
static void json_sampled(struct json *json)
{
    const struct hk_live_samples *live_samples = &json->report->live_samples;
    char line[640];
    struct hk_lines lines;
    struct hk_mapping mapping;
    ADD(",\n \"sampled\": {\"mean\": %lu, ", live_samples->mean);
    json_live_samples(json, &live_samples->all);
    json_array(json, "stacks", live_samples->shown, NULL, json_stack);
    ADD(",\n \"modules\": [");
    json->separator = "\n  ";
    if (live_samples->shown > 0 && hk_lines_open(&lines, "/proc/self/maps"))
        while (hk_lines_next(&lines, line, sizeof line))
            if (hk_mapping_parse(line, &mapping) && mapping.is_code && strchr(mapping.path, '/') != NULL) {
                ADD("%s", json->separator);
                json->separator = ",\n  ";
                json_string(json, line);
            }
    ADD("]}");
}

static void json_option(void *context, const char *name, const char *string, uint64_t number)
{
    struct json *json = context;
    ADD("%s\"%s\": ", json->separator, name);
    json->separator = ", ";
    if (string != NULL)
        json_string(json, string);
    else
        ADD("%lu", number);
}

static void json_heap(struct json *json, unsigned n)
{
    const struct hk_heap_figures *line = &json->report->heap_stats.heap_lines[n];
    ADD("\"heap\": %u, \"name\": ", line->number);
    json_string(json, line->name);
    for (unsigned i = 0; i < HK_HEAP_FIGURES; i++)
        ADD(", \"%s\": %lu", hk_heap_figure_rows[i].name, hk_row_value(&hk_heap_figure_rows[i], line));
}

void hk_report_json(int fd, const struct hk_report *report)
{
    const struct hk_heap_stats *heap_stats = &report->heap_stats;
    const struct hk_process *process = &report->process;
    struct json of_report = {.text.fd = fd, .report = report}, *json = &of_report;
    ADD("{\"version\": \"%s\", \"process\": %d, \"parent\": %d, \"command\": ", HK_VERSION, process->id,
        process->parent);
    json_string(json, process->command);
    char title[128]; /* ends at the first zero byte, because arguments may be secret */
    hk_os.read_file("/proc/self/cmdline", title, sizeof title);
    ADD(", \"title\": ");
    json_string(json, title);
    ADD(", \"time_ms\": %lu, \"threads\": %zu,\n ", process->running_ms, heap_stats->threads);
    ADD("\"served\": {\"malloc\": %lu, \"free\": %lu}", heap_stats->mallocs, heap_stats->frees);
    json_memory(json);
    json_array(json, "tiers", HK_TIERS, NULL, json_tier);
    json_array(json, "classes", HK_CLASSES, hk_class_shows, json_class);
    json_array(json, "thread_lines", heap_stats->thread_lines_shown, NULL, json_thread_line);
    for (unsigned i = 0; i < HK_STAT_ROWS; i++)
        ADD("%s\"%s\": %lu", i > 0 ? ", " : ",\n \"counters\": {", hk_stat_rows[i].name, heap_stats->counts[i]);
    ADD("}");
    json_array(json, "sites", report->sites_shown, NULL, json_site);
    json_sampled(json);
    ADD(",\n \"policy\": {\"state\": \"%s\"", hk_phase_names[hk_policy_phase()]);
    for (enum hk_knob knob = 0; knob < HK_KNOBS; knob++)
        ADD(", \"%s\": %lu", hk_knob_rows[knob].name, hk_policy_value(knob));
    json->separator = "},\n \"options\": {";
    hk_options_visit(json_option, json);
    ADD("}");
    if (heap_stats->heap_lines_shown != 0)
        json_array(json, "heaps", heap_stats->heap_lines_shown, NULL, json_heap);
    ADD("}\n");
    hk_text_flush(&json->text);
}
