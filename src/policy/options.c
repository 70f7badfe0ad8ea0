#include "policy/options.h"

#include <string.h>

#include "base/say.h"
#include "os/os.h"

enum kind { KIND_NUMBER, KIND_TEXT };

struct row {
    const char *name;
    enum kind kind;
    size_t offset;
    uint64_t min, max;
};

#define DEFAULT_NUMBER(x) (x)
#define DEFAULT_TEXT(x) NULL

struct hk_options hk_options = {
#define HK_OPT(kind, name, fallback, min, max, scope, unit, meaning) .name = DEFAULT_##kind(fallback),
#include "policy/options.def"
#undef HK_OPT
};

static const struct row rows[] = {
#define HK_OPT(kind, name, fallback, min, max, scope, unit, meaning)                                                   \
    {#name, KIND_##kind, offsetof(struct hk_options, name), (min), (max)},
#include "policy/options.def"
#undef HK_OPT
};
enum { ROWS = sizeof rows / sizeof rows[0] };

/* HAKMEM_CONF is cut into pieces here. */
static char conf_copy[4096] HK_COLD_DATA;

/* Text values, for the life of the process: programs that show a title in `ps` overwrite their environment with it. */
static struct {
    size_t used;
    char bytes[8192];
} texts HK_COLD_DATA;

static uint64_t *number_of(const struct row *row) { return (uint64_t *)(void *)((char *)&hk_options + row->offset); }
static const char **text_of(const struct row *row) { return (const char **)(void *)((char *)&hk_options + row->offset); }

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c; }

static bool same_name(const char *name, const char *text, size_t length)
{
    size_t i = 0;
    while (i < length && name[i] != 0 && lower(text[i]) == name[i])
        i++;
    return i == length && name[i] == 0;
}

static const struct row *row_named(const char *text, size_t length)
{
    for (const struct row *row = rows; row < rows + ROWS; row++)
        if (same_name(row->name, text, length))
            return row;
    return NULL;
}

static unsigned suffix_shift(char letter)
{
    switch (lower(letter)) {
    case 'k': return 10;
    case 'm': return 20;
    case 'g': return 30;
    default: return 0;
    }
}

static bool parse_number(const char *text, uint64_t *value)
{
    uint64_t sum = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (sum > (UINT64_MAX - 9) / 10)
            return false;
        sum = sum * 10 + (uint64_t)(*at - '0');
    }
    if (at == text)
        return false;
    unsigned shift = suffix_shift(*at);
    if (shift != 0)
        at++;
    if (*at != 0 || sum > UINT64_MAX >> shift)
        return false;
    *value = sum << shift;
    return true;
}

static void set_text(const struct row *row, const char *text)
{
    size_t bytes = strlen(text) + 1;
    if (bytes > sizeof texts.bytes - texts.used) {
        hk_say("option %s: longer than can be kept (%zu characters in all)", row->name, sizeof texts.bytes - 1);
        return;
    }
    char *copy = memcpy(texts.bytes + texts.used, text, bytes);
    texts.used += bytes;
    *text_of(row) = *copy != 0 ? copy : NULL;
}

static void set(const struct row *row, const char *text)
{
    uint64_t value;
    if (row->kind == KIND_TEXT)
        set_text(row, text);
    else if (parse_number(text, &value) && value >= row->min && value <= row->max)
        *number_of(row) = value;
    else
        hk_say("option %s: \"%s\" is not a number in %lu..%lu; it stays %lu", row->name, text, row->min, row->max,
               *number_of(row));
}

static void set_pair(char *pair)
{
    char *colon = strchr(pair, ':');
    size_t length = colon != NULL ? (size_t)(colon - pair) : strlen(pair);
    const struct row *row = row_named(pair, length);
    if (row == NULL || colon == NULL)
        hk_say("HAKMEM_CONF: \"%s\" is not an option with a value (name:value)", pair);
    else
        set(row, colon + 1);
}

static void read_conf(void)
{
    const char *conf = hk_os.option_text("HAKMEM_CONF");
    if (conf == NULL)
        return;
    if (strlen(conf) >= sizeof conf_copy) {
        hk_say("HAKMEM_CONF is longer than %zu characters and is not read", sizeof conf_copy - 1);
        return;
    }
    strcpy(conf_copy, conf);
    for (char *pair = conf_copy, *next; pair != NULL; pair = next) {
        next = strchr(pair, ',');
        if (next != NULL)
            *next++ = 0;
        if (*pair != 0)
            set_pair(pair);
    }
}

void hk_options_read(void)
{
    static const char prefix[] = "HAKMEM_";
    texts.used = 0;
    read_conf();
    for (char **entry = hk_os.environment(); *entry != NULL; entry++) {
        const char *name = *entry + sizeof prefix - 1;
        if (**entry != prefix[0] || strncmp(*entry, prefix, sizeof prefix - 1) != 0 || strncmp(name, "CONF=", 5) == 0)
            continue;
        const char *equals = strchr(name, '=');
        if (equals == NULL)
            continue;
        const struct row *row = row_named(name, (size_t)(equals - name));
        if (row == NULL)
            hk_say("unknown option %s", *entry);
        else
            set(row, equals + 1);
    }
}

void hk_options_visit(void (*visit)(void *context, const char *name, const char *text, uint64_t number), void *context)
{
    for (const struct row *row = rows; row < rows + ROWS; row++)
        if (row->kind == KIND_TEXT)
            visit(context, row->name, *text_of(row) != NULL ? *text_of(row) : "", 0);
        else
            visit(context, row->name, NULL, *number_of(row));
}
