/* Writes a report as JSON. */
#include "report/report.h"

#include <string.h>

#include "base/bits.h"
#include "base/message.h"
#include "os/maps.h"
#include "policy/policy.h"

/* The text, and what comes before the next row of the list that is being written. */
struct json {
    struct hk_text text;
    const struct hk_report *report;
    const char *separator;
};

/* Writes members of the report object, with their names. */
typedef void json_section(struct json *json);

/* A path is any bytes; JSON is UTF-8, and a reader refuses a report with other bytes as a whole. */
static void json_string(struct hk_text *text, const char *s)
{
    hk_text_add(text, "\"");
    for (size_t bytes; *s != 0; s++) {
        if ((unsigned char)*s >= 0x80) {
            bytes = hk_utf8_bytes(s);
            for (size_t left = bytes; left > 1; left--)
                hk_text_add(text, "%c", *s++);
            hk_text_add(text, bytes != 0 ? "%c" : "\\ufffd", *s);
        } else if (*s == '"' || *s == '\\')
            hk_text_add(text, "\\%c", *s);
        else if ((unsigned char)*s < 0x20)
            hk_text_add(text, "\\u00%c%c", '0' + (*s >> 4), "0123456789abcdef"[*s & 15]);
        else
            hk_text_add(text, "%c", *s);
    }
    hk_text_add(text, "\"");
}

static void json_process(struct json *json)
{
    const struct hk_process *process = &json->report->process;
    const struct hk_heap_stats *heap_stats = &json->report->heap_stats;
    hk_text_add(&json->text, "\"version\": \"%s\", \"process\": %d, \"parent\": %d, \"command\": ", HK_VERSION,
                process->id, process->parent);
    json_string(&json->text, process->command);
    hk_text_add(&json->text, ", \"time_ms\": %lu, \"threads\": %zu,\n ", process->running_ms, heap_stats->threads);
    hk_text_add(&json->text, "\"served\": {\"malloc\": %lu, \"free\": %lu}", heap_stats->mallocs, heap_stats->frees);
}

static void json_parts(struct json *json, const size_t parts[HK_PARTS])
{
    for (unsigned part = 0; part < HK_PARTS; part++)
        if (hk_part_shows(&json->report->heap_stats, part))
            hk_text_add(&json->text, "%s\"%s\": %zu", part > 0 ? ", " : "", hk_part_rows[part].name, parts[part]);
}

static void json_limit(struct json *json, const char *name, size_t limit)
{
    if (limit == SIZE_MAX)
        hk_text_add(&json->text, "\"%s\": null", name);
    else
        hk_text_add(&json->text, "\"%s\": %zu", name, limit);
}

static void json_mapped(struct json *json)
{
    const struct hk_heap_stats *heap_stats = &json->report->heap_stats;
    hk_text_add(&json->text, "\"virtual\": %zu, \"limits\": {", json->report->process.virtual_bytes);
    json_limit(json, "address", json->report->process.address_limit);
    hk_text_add(&json->text, ", ");
    json_limit(json, "data", json->report->process.data_limit);
    hk_text_add(&json->text, "},\n \"mapped\": {\"total\": %zu, \"parts\": {", heap_stats->mapped);
    json_parts(json, heap_stats->parts);
    hk_text_add(&json->text, "}},\n \"idle\": {\"dirty\": %zu, \"clean\": %zu}", heap_stats->idle_dirty,
                heap_stats->idle_clean);
}

static void json_resident(struct json *json)
{
    const struct hk_rss_stats *rss_stats = &json->report->rss_stats;
    hk_text_add(&json->text, "\"resident\": %zu, \"resident_statm\": %zu,\n", rss_stats->total,
                json->report->process.resident_bytes);
    hk_text_add(&json->text, " \"resident_parts\": {");
    json_parts(json, rss_stats->all.parts);
    hk_text_add(&json->text, ", \"rest_of_process\": %zu}", rss_stats->rest_of_process);
}

/* Each row begins with json_row(). */
static void json_array(struct json *json, const char *name, unsigned count,
                       void (*write)(struct json *json, unsigned i))
{
    hk_text_add(&json->text, "\"%s\": [", name);
    json->separator = "\n  ";
    for (unsigned i = 0; i < count; i++)
        write(json, i);
    hk_text_add(&json->text, "]");
}

static void json_row(struct json *json)
{
    hk_text_add(&json->text, "%s", json->separator);
    json->separator = ",\n  ";
}

static void json_resident_class(struct json *json, unsigned class)
{
    const struct hk_class_stats *row = &json->report->rss_stats.classes[class];
    if (!hk_class_shows(&json->report->heap_stats, class))
        return;
    json_row(json);
    hk_text_add(&json->text, "{\"size\": %u, \"live\": %lu, \"rounding\": %lu, \"in_bins\": %lu, ",
                hk_classes[class].size, row->live, row->rounding, row->in_bins);
    hk_text_add(&json->text, "\"remote\": %lu, \"free_in_slabs\": %lu, \"pinned\": %zu, \"tails\": %lu}", row->remote,
                row->free_in_slabs, json->report->rss_stats.all.pinned[class], row->tails);
}

/* What resident_parts has in one number, in more. */
static void json_resident_classes(struct json *json)
{
    const struct hk_rss_stats *rss_stats = &json->report->rss_stats;
    json_array(json, "resident_classes", HK_CLASSES, json_resident_class);
    hk_text_add(&json->text, ",\n \"resident_idle\": {\"ageing\": %zu, \"of_huge_pages\": %zu}",
                rss_stats->all.parts[HK_PART_idle] - rss_stats->all.idle_huge, rss_stats->all.idle_huge);
    hk_text_add(&json->text, ",\n \"resident_rest\": {\"files\": %zu, \"anonymous\": %zu}", rss_stats->all.rest_files,
                rss_stats->rest_of_process - rss_stats->all.rest_files);
}

static void json_class_stats(struct json *json, const struct hk_class_stats *class_stats)
{
    unsigned rate = hk_hit_rate(class_stats);
    for (unsigned row = 0; row < HK_CLASS_STATS; row++)
        hk_text_add(&json->text, ", \"%s\": %lu", hk_class_stat_rows[row].name, hk_class_stat(class_stats, row));
    hk_text_add(&json->text, ", \"hit_rate\": %u.%u%u%u%u}", rate / 10000, rate / 1000 % 10, rate / 100 % 10,
                rate / 10 % 10, rate % 10);
}

static void json_tier(struct json *json, unsigned tier)
{
    json_row(json);
    hk_text_add(&json->text, "{\"tier\": \"%s\"", hk_tier_name(tier));
    json_class_stats(json, &json->report->heap_stats.tiers[tier]);
}

static void json_class(struct json *json, unsigned class)
{
    if (!hk_class_shows(&json->report->heap_stats, class))
        return;
    json_row(json);
    hk_text_add(&json->text, "{\"size\": %u, \"tier\": \"%s\"", hk_classes[class].size,
                hk_tier_name(hk_classes[class].tier));
    json_class_stats(json, &json->report->heap_stats.classes[class]);
}

static void json_thread_line(struct json *json, unsigned i)
{
    const struct hk_thread_line *line = &json->report->heap_stats.thread_lines[i];
    json_row(json);
    hk_text_add(&json->text, "{\"thread\": %d, \"allocations\": %lu, \"bins\": %zu, \"depots\": %zu}", line->thread,
                line->served, line->in_bins, line->in_depots);
}

static void json_classes(struct json *json)
{
    json_array(json, "tiers", HK_TIERS, json_tier);
    hk_text_add(&json->text, ",\n ");
    json_array(json, "classes", HK_CLASSES, json_class);
    hk_text_add(&json->text, ",\n ");
    json_array(json, "thread_lines", json->report->heap_stats.thread_lines_shown, json_thread_line);
}

static void json_counters(struct json *json)
{
    hk_text_add(&json->text, "\"counters\": {");
    for (unsigned i = 0; i < HK_STAT_ROWS; i++)
        hk_text_add(&json->text, "%s\"%s\": %lu", i > 0 ? ", " : "", hk_stat_rows[i].name,
                    json->report->heap_stats.counts[i]);
    hk_text_add(&json->text, "}");
}

static void json_site(struct json *json, unsigned i)
{
    const struct hk_site_line *line = &json->report->sites[i];
    json_row(json);
    hk_text_add(&json->text,
                "{\"site\": %zu, \"block\": %zu, \"live\": %lu, \"bytes\": %lu, \"lifetime_ms\": %lu, \"rule\": \"%s\"",
                (size_t)line->caller, line->block, line->live, line->bytes, line->lifetime_ms,
                hk_site_rule_names[line->rule]);
    hk_text_add(&json->text, ", \"saved\": %lu, \"wasted\": %lu}", line->saved, line->wasted);
}

static void json_sites(struct json *json) { json_array(json, "sites", json->report->sites_shown, json_site); }

static void json_live_samples(struct json *json, const struct hk_live_samples_sums *sums)
{
    hk_text_add(&json->text, "\"live_count\": %lu, \"live_bytes\": %lu, \"pinned_bytes\": %lu", sums->blocks,
                sums->bytes, sums->pinned);
}

static void json_stack(struct json *json, unsigned n)
{
    const struct hk_live_samples_line *line = &json->report->live_samples.stacks[n];
    json_row(json);
    hk_text_add(&json->text, "{");
    json_live_samples(json, &line->sums);
    hk_text_add(&json->text, ", \"frames\": [");
    for (unsigned i = 0; i < line->site->depth; i++)
        hk_text_add(&json->text, "%s%zu", i > 0 ? ", " : "", (size_t)line->site->stack[i]);
    hk_text_add(&json->text, "]}");
}

/* The lines of /proc/self/maps about code of files. */
static void json_modules(struct json *json)
{
    char line[640];
    struct hk_lines lines;
    struct hk_mapping mapping;
    json->separator = "\n  ";
    if (!hk_lines_open(&lines, "/proc/self/maps"))
        return;
    while (hk_lines_next(&lines, line, sizeof line))
        if (hk_mapping_parse(line, &mapping) && mapping.is_code && strchr(mapping.path, '/') != NULL) {
            json_row(json);
            json_string(&json->text, line);
        }
    hk_lines_close(&lines);
}

static void json_sampled(struct json *json)
{
    const struct hk_live_samples *live_samples = &json->report->live_samples;
    hk_text_add(&json->text, "\"sampled\": {\"mean\": %lu, ", live_samples->mean);
    json_live_samples(json, &live_samples->all);
    hk_text_add(&json->text, ", ");
    json_array(json, "stacks", live_samples->shown, json_stack);
    hk_text_add(&json->text, ",\n \"modules\": [");
    if (live_samples->shown > 0)
        json_modules(json);
    hk_text_add(&json->text, "]}");
}

static void json_policy(struct json *json)
{
    hk_text_add(&json->text, "\"policy\": {\"state\": \"%s\"", hk_phase_names[hk_policy_phase()]);
    for (enum hk_knob knob = 0; knob < HK_KNOBS; knob++)
        hk_text_add(&json->text, ", \"%s\": %lu", hk_knob_rows[knob].name, hk_policy_value(knob));
    hk_text_add(&json->text, "}");
}

static void json_option(void *context, const char *name, const char *string, uint64_t number)
{
    struct json *json = context;
    hk_text_add(&json->text, "%s\"%s\": ", json->separator, name);
    json->separator = ", ";
    if (string != NULL)
        json_string(&json->text, string);
    else
        hk_text_add(&json->text, "%lu", number);
}

static void json_options(struct json *json)
{
    json->separator = "\"options\": {";
    hk_options_visit(json_option, json);
    hk_text_add(&json->text, "}");
}

static void json_heap(struct json *json, unsigned n)
{
    const struct hk_heap_figures *line = &json->report->heap_stats.heap_lines[n];
    json_row(json);
    hk_text_add(&json->text, "{\"heap\": %u, \"name\": ", line->number);
    json_string(&json->text, line->name);
    for (unsigned i = 0; i < HK_HEAP_FIGURES; i++)
        hk_text_add(&json->text, ", \"%s\": %lu", hk_heap_figure_rows[i].name, hk_heap_figure(line, i));
    hk_text_add(&json->text, "}");
}

/* Absent where the process has none: most reports are of such. */
static void json_heaps(struct json *json)
{
    if (json->report->heap_stats.heap_lines_shown == 0)
        return;
    hk_text_add(&json->text, ",\n ");
    json_array(json, "heaps", json->report->heap_stats.heap_lines_shown, json_heap);
}

void hk_report_json(int fd, const struct hk_report *report)
{
    static json_section *const sections[] = {
        json_process,  json_resident, json_resident_classes, json_mapped, json_classes,
        json_counters, json_sites,    json_sampled,          json_policy, json_options};
    struct json json = {.report = report};
    hk_text_init(&json.text, fd);
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        hk_text_add(&json.text, i == 0 ? "{" : ",\n ");
        sections[i](&json);
    }
    json_heaps(&json);
    hk_text_add(&json.text, "}\n");
    hk_text_flush(&json.text);
}
