/* Writes a report as JSON. */
#include "report/report.h"

#include <string.h>

#include "base/bits.h"
#include "base/message.h"
#include "os/maps.h"
#include "policy/policy.h"

/* Writes one member of the report object, preceded by its name. */
typedef void json_section(struct hk_text *text, const struct hk_report *report);

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

static void json_process(struct hk_text *text, const struct hk_report *report)
{
    const struct hk_process *process = &report->process;
    hk_text_add(text, "\"version\": \"%s\", \"process\": %d, \"parent\": %d, \"command\": ", HK_VERSION, process->id,
                process->parent);
    json_string(text, process->command);
    hk_text_add(text, ", \"time_ms\": %lu, \"threads\": %zu", process->running_ms, report->heap_stats.threads);
}

static void json_served(struct hk_text *text, const struct hk_report *report)
{
    hk_text_add(text, "\"served\": {\"malloc\": %lu, \"free\": %lu}", report->heap_stats.mallocs,
                report->heap_stats.frees);
}

static void json_limit(struct hk_text *text, const char *name, size_t limit)
{
    if (limit == SIZE_MAX)
        hk_text_add(text, "\"%s\": null", name);
    else
        hk_text_add(text, "\"%s\": %zu", name, limit);
}

static void json_virtual(struct hk_text *text, const struct hk_report *report)
{
    hk_text_add(text, "\"virtual\": %zu, \"limits\": {", report->process.virtual_bytes);
    json_limit(text, "address", report->process.address_limit);
    hk_text_add(text, ", ");
    json_limit(text, "data", report->process.data_limit);
    hk_text_add(text, "}");
}

static void json_parts(struct hk_text *text, const struct hk_heap_stats *heap_stats, const size_t parts[HK_PARTS])
{
    for (unsigned part = 0; part < HK_PARTS; part++)
        if (hk_part_shows(heap_stats, part))
            hk_text_add(text, "%s\"%s\": %zu", part > 0 ? ", " : "", hk_part_rows[part].name, parts[part]);
}

static void json_mapped(struct hk_text *text, const struct hk_report *report)
{
    const struct hk_heap_stats *heap_stats = &report->heap_stats;
    hk_text_add(text, "\"mapped\": {\"total\": %zu, \"parts\": {", heap_stats->mapped);
    json_parts(text, heap_stats, heap_stats->parts);
    hk_text_add(text, "}},\n \"idle\": {\"dirty\": %zu, \"clean\": %zu}", heap_stats->idle_dirty,
                heap_stats->idle_clean);
}

static void json_resident(struct hk_text *text, const struct hk_report *report)
{
    const struct hk_rss_stats *rss_stats = &report->rss_stats;
    hk_text_add(text, "\"resident\": %zu, \"resident_statm\": %zu,\n", rss_stats->total,
                report->process.resident_bytes);
    hk_text_add(text, " \"resident_parts\": {");
    json_parts(text, &report->heap_stats, rss_stats->parts);
    hk_text_add(text, ", \"rest_of_process\": %zu}", rss_stats->rest_of_process);
}

/* What resident_parts has in one number, in more. */
static void json_resident_classes(struct hk_text *text, const struct hk_report *report)
{
    const char *separator = "\n  ";
    hk_text_add(text, "\"resident_classes\": [");
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        const struct hk_resident_class *row = &report->rss_stats.classes[class];
        if (report->heap_stats.classes[class].served == 0 && report->heap_stats.classes[class].slabs == 0)
            continue;
        hk_text_add(text, "%s{\"size\": %u, \"live\": %zu, \"rounding\": %zu, \"in_bins\": %zu, ", separator,
                    hk_classes[class].size, row->live, row->rounding, row->in_bins);
        hk_text_add(text, "\"remote\": %zu, \"free_in_slabs\": %zu, \"pinned\": %zu, \"tails\": %zu}", row->remote,
                    row->free_in_slabs, row->pinned, row->tails);
        separator = ",\n  ";
    }
    hk_text_add(text, "],\n \"resident_idle\": {\"ageing\": %zu, \"of_huge_pages\": %zu}",
                report->rss_stats.parts[HK_PART_idle] - report->rss_stats.idle_huge, report->rss_stats.idle_huge);
    hk_text_add(text, ",\n \"resident_rest\": {\"files\": %zu, \"anonymous\": %zu}", report->rss_stats.rest_files,
                report->rss_stats.rest_of_process - report->rss_stats.rest_files);
}

/* Writes a member that is an array, a row by a call. */
static void json_array(struct hk_text *text, const char *name, const void *first, size_t bytes, unsigned count,
                       void (*write)(struct hk_text *text, const void *row))
{
    hk_text_add(text, "\"%s\": [", name);
    for (unsigned i = 0; i < count; i++) {
        hk_text_add(text, i > 0 ? ",\n  " : "\n  ");
        write(text, (const char *)first + i * bytes);
    }
    hk_text_add(text, "]");
}

static void json_class_stats(struct hk_text *text, const struct hk_class_stats *class_stats)
{
    unsigned rate = hk_hit_rate(class_stats);
    for (unsigned row = 0; row < HK_CLASS_STATS; row++)
        hk_text_add(text, ", \"%s\": %lu", hk_class_stat_rows[row].name, hk_class_stat(class_stats, row));
    hk_text_add(text, ", \"hit_rate\": %u.%u%u%u%u}", rate / 10000, rate / 1000 % 10, rate / 100 % 10, rate / 10 % 10,
                rate % 10);
}

static void json_tiers(struct hk_text *text, const struct hk_report *report)
{
    hk_text_add(text, "\"tiers\": [");
    for (unsigned tier = 0; tier < HK_TIERS; tier++) {
        hk_text_add(text, "%s{\"tier\": \"%s\"", tier > 0 ? ",\n  " : "\n  ", hk_heap_stats_tier_name(tier));
        json_class_stats(text, &report->heap_stats.tiers[tier]);
    }
    hk_text_add(text, "]");
}

static void json_classes(struct hk_text *text, const struct hk_report *report)
{
    const char *separator = "\n  ";
    hk_text_add(text, "\"classes\": [");
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        const struct hk_class_stats *row = &report->heap_stats.classes[class];
        if (row->served == 0 && row->slabs == 0)
            continue;
        hk_text_add(text, "%s{\"size\": %u, \"tier\": \"%s\"", separator, hk_classes[class].size,
                    hk_heap_stats_tier_name(hk_classes[class].tier));
        json_class_stats(text, row);
        separator = ",\n  ";
    }
    hk_text_add(text, "]");
}

static void json_counters(struct hk_text *text, const struct hk_report *report)
{
    hk_text_add(text, "\"counters\": {");
    for (unsigned i = 0; i < HK_STAT_ROWS; i++)
        hk_text_add(text, "%s\"%s\": %lu", i > 0 ? ", " : "", hk_stat_rows[i].name, report->heap_stats.counts[i]);
    hk_text_add(text, "}");
}

static void json_policy(struct hk_text *text, const struct hk_report *report)
{
    (void)report;
    hk_text_add(text, "\"policy\": {\"state\": \"%s\"", hk_phase_names[hk_policy_phase()]);
    for (enum hk_knob knob = 0; knob < HK_KNOBS; knob++)
        hk_text_add(text, ", \"%s\": %lu", hk_knob_rows[knob].name, hk_policy_value(knob));
    hk_text_add(text, "}");
}

static void json_site(struct hk_text *text, const void *row)
{
    const struct hk_site_line *line = row;
    hk_text_add(text, "{\"site\": %zu, \"block\": %zu, \"live\": %lu, \"bytes\": %lu, \"lifetime_ms\": %lu, ",
                (size_t)line->caller, line->block, line->live, line->bytes, line->lifetime_ms);
    hk_text_add(text, "\"rule\": \"%s\", \"saved\": %lu, \"wasted\": %lu}", hk_site_rule_names[line->rule], line->saved,
                line->wasted);
}

static void json_sites(struct hk_text *text, const struct hk_report *report)
{
    json_array(text, "sites", report->sites, sizeof report->sites[0], report->sites_shown, json_site);
}

static void json_thread_line(struct hk_text *text, const void *row)
{
    const struct hk_thread_line *line = row;
    hk_text_add(text, "{\"thread\": %d, \"allocations\": %lu, ", line->thread, line->served);
    hk_text_add(text, "\"bins\": %zu, \"depots\": %zu}", line->in_bins, line->in_depots);
}

static void json_thread_lines(struct hk_text *text, const struct hk_report *report)
{
    json_array(text, "thread_lines", report->thread_lines, sizeof report->thread_lines[0], report->thread_lines_shown,
               json_thread_line);
}

static void json_heap(struct hk_text *text, const void *row)
{
    const struct hk_heap_figures *line = row;
    hk_text_add(text, "{\"heap\": %u, \"name\": ", line->number);
    json_string(text, line->name);
    hk_text_add(text,
                ", \"physical\": %zu, \"limit\": %zu, \"peak\": %zu, \"live\": %zu, \"cached\": %zu, \"large\": %zu",
                line->physical, line->limit, line->peak, line->live, line->cached, line->large);
    hk_text_add(text, ", \"live_blocks\": %zu, \"caches\": %zu, \"served\": %lu, \"refused\": %lu, \"resets\": %lu}",
                line->live_blocks, line->caches, line->mallocs, line->refused, line->resets);
}

/* Absent where the process has none: most reports are of such. */
static void json_heaps(struct hk_text *text, const struct hk_report *report)
{
    if (report->heaps_shown == 0)
        return;
    hk_text_add(text, ",\n ");
    json_array(text, "heaps", report->heaps, sizeof report->heaps[0], report->heaps_shown, json_heap);
}

static void json_live_samples(struct hk_text *text, const struct hk_live_samples_sums *sums)
{
    hk_text_add(text, "\"live_count\": %lu, \"live_bytes\": %lu, \"pinned_bytes\": %lu", sums->blocks, sums->bytes,
                sums->pinned);
}

static void json_stack(struct hk_text *text, const void *row)
{
    const struct hk_live_samples_line *line = row;
    hk_text_add(text, "{");
    json_live_samples(text, &line->sums);
    hk_text_add(text, ", \"frames\": [");
    for (unsigned i = 0; i < line->site->depth; i++)
        hk_text_add(text, "%s%zu", i > 0 ? ", " : "", (size_t)line->site->stack[i]);
    hk_text_add(text, "]}");
}

/* The lines of /proc/self/maps about code of files. */
static void json_modules(struct hk_text *text)
{
    char line[640];
    const char *separator = "\n  ";
    struct hk_lines lines;
    struct hk_mapping mapping;
    if (!hk_lines_open(&lines, "/proc/self/maps"))
        return;
    while (hk_lines_next(&lines, line, sizeof line))
        if (hk_mapping_parse(line, &mapping) && mapping.is_code && strchr(mapping.path, '/') != NULL) {
            hk_text_add(text, "%s", separator);
            json_string(text, line);
            separator = ",\n  ";
        }
    hk_lines_close(&lines);
}

static void json_sampled(struct hk_text *text, const struct hk_report *report)
{
    const struct hk_live_samples *live_samples = &report->live_samples;
    hk_text_add(text, "\"sampled\": {\"mean\": %lu, ", live_samples->mean);
    json_live_samples(text, &live_samples->all);
    hk_text_add(text, ", ");
    json_array(text, "stacks", live_samples->stacks, sizeof live_samples->stacks[0], live_samples->shown, json_stack);
    hk_text_add(text, ",\n \"modules\": [");
    if (live_samples->shown > 0)
        json_modules(text);
    hk_text_add(text, "]}");
}

struct json_list {
    struct hk_text *text;
    bool begun;
};

static void json_option(void *context, const char *name, const char *string, uint64_t number)
{
    struct json_list *list = context;
    hk_text_add(list->text, "%s\"%s\": ", list->begun ? ", " : "", name);
    list->begun = true;
    if (string != NULL)
        json_string(list->text, string);
    else
        hk_text_add(list->text, "%lu", number);
}

static void json_options(struct hk_text *text, const struct hk_report *report)
{
    struct json_list list = {text, false};
    (void)report;
    hk_text_add(text, "\"options\": {");
    hk_options_visit(json_option, &list);
    hk_text_add(text, "}");
}

void hk_report_json(int fd, const struct hk_report *report)
{
    static json_section *const sections[] = {json_process,      json_served,   json_resident, json_resident_classes,
                                             json_virtual,      json_mapped,   json_tiers,    json_classes,
                                             json_thread_lines, json_counters, json_sites,    json_sampled,
                                             json_policy,       json_options};
    struct hk_text text;
    hk_text_init(&text, fd);
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        hk_text_add(&text, i == 0 ? "{" : ",\n ");
        sections[i](&text, report);
    }
    json_heaps(&text, report);
    hk_text_add(&text, "}\n");
    hk_text_flush(&text);
}
