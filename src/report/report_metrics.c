#include "report/report.h"

#include <string.h>

#include "base/message.h"

/* OpenMetrics: a family's name ends in its unit; a family that counts things has no unit. */
struct family {
    const char *group, *name, *kind, *unit, *meaning;
};

static bool is_measured(const char *unit) { return strcmp(unit, "bytes") == 0; }

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static void add_family_name(struct hk_text *text, const struct family *family)
{
    hk_text_add(text, "hakmem_%s%s", family->group, family->name);
    if (is_measured(family->unit) && !ends_with(family->name, family->unit))
        hk_text_add(text, "_%s", family->unit);
}

static void begin_family(struct hk_text *text, const struct family *family)
{
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

/* The caller appends labels and the value. */
static void begin_sample(struct hk_text *text, const struct family *family)
{
    add_family_name(text, family);
    if (strcmp(family->kind, "counter") == 0)
        hk_text_add(text, "_total");
}

static void add_single(struct hk_text *text, struct family family, uint64_t value)
{
    begin_family(text, &family);
    begin_sample(text, &family);
    hk_text_add(text, " %lu\n", value);
}

static void add_process(struct hk_text *text, const struct hk_report *report)
{
    const struct hk_census *census = &report->census;
    hk_text_add(text, "# TYPE hakmem info\n# HELP hakmem version of HAKMEM\nhakmem_info{version=\"%s\"} 1\n",
                HK_VERSION);
    add_single(text, (struct family){"", "mallocs", "counter", "calls", "allocations by any function"},
               census->mallocs);
    add_single(text, (struct family){"", "frees", "counter", "calls", "blocks freed"}, census->frees);
    add_single(text, (struct family){"", "threads", "gauge", "threads", "threads that have a tcache"}, census->threads);
    add_single(text,
               (struct family){"process_", "resident", "gauge", "bytes",
                               "resident memory of the process, by the kernel's count"},
               report->residence.total);
    add_single(text, (struct family){"process_", "virtual", "gauge", "bytes", "address space of the process"},
               report->process.virtual_bytes);
    add_single(text,
               (struct family){"process_", "rest", "gauge", "bytes",
                               "resident memory outside HAKMEM: code, stacks, other mappings"},
               report->residence.rest_of_process);
}

static void add_parts(struct hk_text *text, struct family family, const size_t parts[HK_PARTS])
{
    begin_family(text, &family);
    for (unsigned part = 0; part < HK_PARTS; part++) {
        begin_sample(text, &family);
        hk_text_add(text, "{part=\"%s\"} %zu\n", hk_part_rows[part].name, parts[part]);
    }
}

static void add_tally(struct hk_text *text, const struct hk_census *census, unsigned row)
{
    const struct hk_tally_row *tally = &hk_tally_rows[row];
    struct family of_classes = {"class_", tally->name, tally->kind, tally->unit, tally->meaning};
    struct family of_tiers = {"tier_", tally->name, tally->kind, tally->unit, tally->meaning};
    begin_family(text, &of_classes);
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        begin_sample(text, &of_classes);
        hk_text_add(text, "{size=\"%u\",tier=\"%s\"} %lu\n", hk_classes[class].size,
                    hk_census_tier_name(hk_classes[class].tier), hk_tally(&census->classes[class], row));
    }
    begin_family(text, &of_tiers);
    for (unsigned tier = 0; tier < HK_TIERS; tier++) {
        begin_sample(text, &of_tiers);
        hk_text_add(text, "{tier=\"%s\"} %lu\n", hk_census_tier_name(tier), hk_tally(&census->tiers[tier], row));
    }
}

void hk_report_metrics(int fd, const struct hk_report *report)
{
    struct hk_text text;
    hk_text_init(&text, fd);
    add_process(&text, report);
    add_parts(&text, (struct family){"", "mapped", "gauge", "bytes", "writable memory that HAKMEM has mapped, by part"},
              report->census.parts);
    add_parts(&text, (struct family){"", "resident", "gauge", "bytes", "resident memory of HAKMEM, by part"},
              report->residence.parts);
    for (unsigned row = 0; row < HK_TALLIES; row++)
        add_tally(&text, &report->census, row);
    for (unsigned i = 0; i < HK_STAT_ROWS; i++) {
        const struct hk_stat_row *stat = &hk_stat_rows[i];
        add_single(&text, (struct family){"", stat->name, "counter", stat->unit, stat->meaning},
                   report->census.counts[i]);
    }
    hk_text_add(&text, "# EOF\n");
    hk_text_flush(&text);
}
