#include "report/report.h"

#include "base/message.h"
#include "policy/policy.h"

/* Writes one member of the report object, preceded by its name. */
typedef void json_section(struct hk_text *text, const struct hk_report *report);

static void json_string(struct hk_text *text, const char *s)
{
    hk_text_add(text, "\"");
    for (; *s != 0; s++) {
        if (*s == '"' || *s == '\\')
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
    hk_text_add(text, "\"version\": \"%s\", \"process\": %d, \"time_ms\": %lu, \"threads\": %zu", HK_VERSION,
                report->process.id, report->process.running_ms, report->census.threads);
}

static void json_served(struct hk_text *text, const struct hk_report *report)
{
    hk_text_add(text, "\"served\": {\"malloc\": %lu, \"free\": %lu}", report->census.mallocs, report->census.frees);
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

static void json_parts(struct hk_text *text, const size_t parts[HK_PARTS])
{
    for (unsigned part = 0; part < HK_PARTS; part++)
        hk_text_add(text, "%s\"%s\": %zu", part > 0 ? ", " : "", hk_part_rows[part].name, parts[part]);
}

static void json_mapped(struct hk_text *text, const struct hk_report *report)
{
    const struct hk_census *census = &report->census;
    hk_text_add(text, "\"mapped\": {\"total\": %zu, \"parts\": {", census->mapped);
    json_parts(text, census->parts);
    hk_text_add(text, "}},\n \"idle\": {\"dirty\": %zu, \"clean\": %zu}", census->idle_dirty, census->idle_clean);
}

static void json_resident(struct hk_text *text, const struct hk_report *report)
{
    const struct hk_residence *residence = &report->residence;
    hk_text_add(text, "\"resident\": %zu, \"resident_statm\": %zu,\n", residence->total,
                report->process.resident_bytes);
    hk_text_add(text, " \"resident_parts\": {");
    json_parts(text, residence->parts);
    hk_text_add(text, ", \"rest_of_process\": %zu}", residence->rest_of_process);
}

static void json_tallies(struct hk_text *text, const struct hk_tallies *tallies)
{
    unsigned rate = hk_hit_rate(tallies);
    for (unsigned row = 0; row < HK_TALLIES; row++)
        hk_text_add(text, ", \"%s\": %lu", hk_tally_rows[row].name, hk_tally(tallies, row));
    hk_text_add(text, ", \"hit_rate\": %u.%u%u%u%u}", rate / 10000, rate / 1000 % 10, rate / 100 % 10, rate / 10 % 10,
                rate % 10);
}

static void json_tiers(struct hk_text *text, const struct hk_report *report)
{
    hk_text_add(text, "\"tiers\": [");
    for (unsigned tier = 0; tier < HK_TIERS; tier++) {
        hk_text_add(text, "%s{\"tier\": \"%s\"", tier > 0 ? ",\n  " : "\n  ", hk_census_tier_name(tier));
        json_tallies(text, &report->census.tiers[tier]);
    }
    hk_text_add(text, "]");
}

static void json_classes(struct hk_text *text, const struct hk_report *report)
{
    const char *separator = "\n  ";
    hk_text_add(text, "\"classes\": [");
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        const struct hk_tallies *row = &report->census.classes[class];
        if (row->served == 0 && row->slabs == 0)
            continue;
        hk_text_add(text, "%s{\"size\": %u, \"tier\": \"%s\"", separator, hk_classes[class].size,
                    hk_census_tier_name(hk_classes[class].tier));
        json_tallies(text, row);
        separator = ",\n  ";
    }
    hk_text_add(text, "]");
}

static void json_counters(struct hk_text *text, const struct hk_report *report)
{
    hk_text_add(text, "\"counters\": {");
    for (unsigned i = 0; i < HK_STAT_ROWS; i++)
        hk_text_add(text, "%s\"%s\": %lu", i > 0 ? ", " : "", hk_stat_rows[i].name, report->census.counts[i]);
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

static void json_site(struct hk_text *text, const struct hk_site_line *line)
{
    hk_text_add(text, "{\"site\": %zu, \"block\": %zu, \"live\": %lu, \"bytes\": %lu, \"lifetime_ms\": %lu, ",
                (size_t)line->caller, line->block, line->live, line->bytes, line->lifetime_ms);
    hk_text_add(text, "\"rule\": \"%s\", \"saved\": %lu, \"wasted\": %lu}", hk_site_rule_names[line->rule], line->saved,
                line->wasted);
}

static void json_sites(struct hk_text *text, const struct hk_report *report)
{
    hk_text_add(text, "\"sites\": [");
    for (unsigned i = 0; i < report->sites_shown; i++) {
        hk_text_add(text, i > 0 ? ",\n  " : "\n  ");
        json_site(text, &report->sites[i]);
    }
    hk_text_add(text, "]");
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
    static json_section *const sections[] = {json_process, json_served, json_resident, json_virtual,
                                             json_mapped,  json_tiers,  json_classes,  json_counters,
                                             json_sites,   json_policy, json_options};
    struct hk_text text;
    hk_text_init(&text, fd);
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        hk_text_add(&text, i == 0 ? "{" : ",\n ");
        sections[i](&text, report);
    }
    hk_text_add(&text, "}\n");
    hk_text_flush(&text);
}
