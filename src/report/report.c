#include "report/report.h"

#include "base/bits.h"
#include "base/say.h"
#include "policy/options.h"
#include "span/runs.h"
#include "tiers/bigcache.h"

static size_t decimal_digits(uint64_t value)
{
    size_t digits = 1;
    for (; value >= 10; value /= 10)
        digits++;
    return digits;
}

static void pad(struct hk_text *text, size_t used, size_t width)
{
    for (; used < width; used++)
        hk_text_add(text, " ");
}

/* Right-aligned with one decimal, in the unit that suits: "12.3 MiB". */
static void add_bytes(struct hk_text *text, size_t bytes, size_t width)
{
    static const char *const units[] = {"B  ", "KiB", "MiB", "GiB", "TiB"};
    unsigned unit = 0;
    uint64_t tenths = (uint64_t)bytes * 10;
    for (; tenths >= 10240 && unit < 4; unit++)
        tenths /= 1024;
    pad(text, decimal_digits(tenths / 10) + 2 + 4, width);
    hk_text_add(text, "%lu.%lu %s", tenths / 10, tenths % 10, units[unit]);
}

static void add_count(struct hk_text *text, uint64_t value, size_t width)
{
    pad(text, decimal_digits(value), width);
    hk_text_add(text, "%lu", value);
}

static void add_name(struct hk_text *text, const char *name, size_t width)
{
    size_t length = 0;
    while (name[length] != 0)
        length++;
    hk_text_add(text, "%s", name);
    pad(text, length, width);
}

static void text_parts(struct hk_text *text, const struct hk_census *census)
{
    struct hk_part parts[HK_PARTS];
    hk_census_parts(census, parts);
    for (int i = 0; i < HK_PARTS; i++) {
        hk_text_add(text, "  ");
        add_name(text, parts[i].name, 16);
        add_bytes(text, parts[i].bytes, 12);
        hk_text_add(text, "  %s\n", parts[i].meaning);
    }
    hk_text_add(text, "  ");
    add_name(text, "= mapped", 16);
    add_bytes(text, census->mapped, 12);
    hk_text_add(text, "  writable memory that HAKMEM asked the system for\n");
}

static void text_classes(struct hk_text *text, const struct hk_census *census)
{
    hk_text_add(text, "\nclass   tier         served         live      in bins     in slabs    slabs\n");
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        const struct hk_class_census *row = &census->classes[class];
        if (row->served == 0 && row->slabs == 0)
            continue;
        add_count(text, hk_classes[class].size, 7);
        hk_text_add(text, " ");
        add_name(text, hk_tier_name((enum hk_tier)hk_classes[class].tier), 6);
        add_count(text, row->served, 13);
        add_bytes(text, row->live, 13);
        add_bytes(text, row->in_bins, 13);
        add_bytes(text, row->free_in_slabs, 13);
        add_count(text, row->slabs, 9);
        hk_text_add(text, "\n");
    }
}

static void text_option(void *context, const char *name, const char *string, uint64_t number)
{
    struct hk_text *text = context;
    hk_text_add(text, "  ");
    add_name(text, name, 18);
    if (string != NULL)
        hk_text_add(text, "%s\n", string);
    else
        hk_text_add(text, "%lu\n", number);
}

void hk_report_text(int fd, const struct hk_census *census, const struct hk_process *process)
{
    struct hk_text text;
    hk_text_init(&text, fd);
    hk_text_add(&text, "HAKMEM %s, process %d\n\n", HK_VERSION, process->id);
    hk_text_add(&text, "served %lu allocations and %lu frees, %zu threads now\n", census->mallocs, census->frees,
                census->threads);
    hk_text_add(&text, "resident");
    add_bytes(&text, process->resident_bytes, 12);
    hk_text_add(&text, "  the whole process, as the kernel counts\n\nwhere the memory is\n");
    text_parts(&text, census);
    text_classes(&text, census);
    hk_text_add(&text, "\ncounters\n");
    for (unsigned i = 0; i < HK_STAT_ROWS; i++) {
        hk_text_add(&text, "  ");
        add_name(&text, hk_stat_rows[i].name, 18);
        add_count(&text, census->counts[i], 14);
        hk_text_add(&text, " %s: %s\n", hk_stat_rows[i].unit, hk_stat_rows[i].meaning);
    }
    hk_text_add(&text, "\noptions\n");
    hk_options_visit(text_option, &text);
    hk_text_flush(&text);
}

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

static void json_parts(struct hk_text *text, const struct hk_census *census)
{
    struct hk_part parts[HK_PARTS];
    hk_census_parts(census, parts);
    hk_text_add(text, " \"mapped\": {\"total\": %zu, \"parts\": {", census->mapped);
    for (int i = 0; i < HK_PARTS; i++)
        hk_text_add(text, "%s\"%s\": %zu", i > 0 ? ", " : "", parts[i].name, parts[i].bytes);
    hk_text_add(text, "}},\n");
}

static void json_classes(struct hk_text *text, const struct hk_census *census)
{
    hk_text_add(text, " \"classes\": [");
    const char *separator = "\n  ";
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        const struct hk_class_census *row = &census->classes[class];
        if (row->served == 0 && row->slabs == 0)
            continue;
        hk_text_add(text, "%s{\"size\": %u, \"tier\": \"%s\", \"served\": %lu, \"live_blocks\": %zu, \"live\": %zu, ",
                    separator, hk_classes[class].size, hk_tier_name((enum hk_tier)hk_classes[class].tier), row->served,
                    row->live_blocks, row->live);
        hk_text_add(text, "\"in_bins\": %zu, \"remote\": %zu, \"free_in_slabs\": %zu, \"tails\": %zu, \"slabs\": %zu}",
                    row->in_bins, row->remote, row->free_in_slabs, row->tails, row->slabs);
        separator = ",\n  ";
    }
    hk_text_add(text, "],\n");
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

void hk_report_json(int fd, const struct hk_census *census, const struct hk_process *process)
{
    struct hk_text text;
    hk_text_init(&text, fd);
    hk_text_add(&text, "{\"version\": \"%s\", \"process\": %d,\n", HK_VERSION, process->id);
    hk_text_add(&text, " \"served\": {\"malloc\": %lu, \"free\": %lu}, \"threads\": %zu,\n", census->mallocs,
                census->frees, census->threads);
    hk_text_add(&text, " \"resident\": %zu, \"virtual\": %zu,\n", process->resident_bytes, process->virtual_bytes);
    json_parts(&text, census);
    hk_text_add(&text, " \"idle\": {\"dirty\": %zu, \"clean\": %zu},\n", census->idle_dirty, census->idle_clean);
    json_classes(&text, census);
    hk_text_add(&text, " \"counters\": {");
    for (unsigned i = 0; i < HK_STAT_ROWS; i++)
        hk_text_add(&text, "%s\"%s\": %lu", i > 0 ? ", " : "", hk_stat_rows[i].name, census->counts[i]);
    hk_text_add(&text, "},\n \"options\": {");
    struct json_list list = {&text, false};
    hk_options_visit(json_option, &list);
    hk_text_add(&text, "}}\n");
    hk_text_flush(&text);
}

void hk_report_out_of_memory(size_t asked, size_t address_limit, const struct hk_process *process)
{
    struct hk_runs_totals units;
    struct hk_big_totals bigs;
    hk_runs_total(&units);
    hk_big_total(&bigs);
    char limit[32] = "none";
    struct hk_text number;
    hk_text_init(&number, -1);
    if (address_limit != SIZE_MAX) {
        hk_text_add(&number, "%zu", address_limit);
        for (size_t i = 0; i <= number.used && i < sizeof limit; i++)
            limit[i] = i < number.used ? number.bytes[i] : '\0';
    }
    hk_say("out of memory: %zu bytes refused (ENOMEM); address limit %s, virtual %zu, resident %zu, slabs %zu "
           "(free %zu), big live %zu, big cached %zu",
           asked, limit, process->virtual_bytes, process->resident_bytes, units.mapped, units.free_dirty + units.free_clean,
           bigs.live, bigs.cached);
}
