/* Reads the options from the environment, and reports invalid values and unknown names. */
#include "policy/options.h"
#include <string.h>
#include "base/bits.h"
#include "base/message.h"
#include "os/os.h"

enum kind { KIND_NUMBER, KIND_TEXT, KIND_WORD };

/* The texts are arrays, because pointers would need relocation. */
struct row {
    char name[20], unit[24];
    enum kind kind;
    unsigned offset;
    uint64_t min, max;
};

#define DEFAULT_NUMBER(x) (x)
#define DEFAULT_TEXT(x) NULL
#define DEFAULT_WORD(x) (x)

struct hk_options hk_options = {
#define HK_OPT(kind, name, fallback, min, max, scope, unit, meaning) .name = DEFAULT_##kind(fallback),
#include "policy/options.def"
};

static const struct row rows[] = {
#define HK_OPT(kind, name, fallback, min, max, scope, unit, meaning)                                                   \
    {#name, #unit, KIND_##kind, offsetof(struct hk_options, name), (min), (max)},
#include "policy/options.def"
};
enum { ROWS = sizeof rows / sizeof rows[0], LONGEST_NAME = sizeof rows[0].name + 2, LEAST_LETTERS = 4, MOST_EDITS = 2 };
static bool ignored HK_EACH_PROCESS_DATA; /* true in a copy of HAKMEM that does not serve the process */
static char conf_copy[4096] HK_COLD_DATA; /* a copy of HAKMEM_CONF, which is split in place */
/* Holds copies of text values, because programs that set their title in `ps` overwrite the environment. */
static char text_bytes[8192] HK_COLD_DATA;
static size_t text_used HK_EACH_PROCESS_DATA;

static uint64_t *number_of(const struct row *row) { return (uint64_t *)(void *)((char *)&hk_options + row->offset); }
static const char **text_of(const struct row *row)
{
    return (const char **)(void *)((char *)&hk_options + row->offset);
}

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c; }

HK_INLINE bool same_name(const char *name, const char *text, size_t length)
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

/* Returns how many letters must be inserted, dropped or replaced to turn the text into a row's name. */
static size_t edits(const char *name, const char *text, size_t length)
{
    size_t cost[LONGEST_NAME + 1];
    for (size_t i = 0; i <= length; i++)
        cost[i] = i;
    for (; *name != 0; name++) {
        size_t diagonal = cost[0]++;
        for (size_t i = 1; i <= length; i++) {
            size_t replaced = diagonal + (lower(text[i - 1]) != *name);
            diagonal = cost[i];
            cost[i] = hk_min(replaced, hk_min(cost[i - 1], diagonal) + 1);
        }
    }
    return cost[length];
}

const char *hk_option_near(const char *text, size_t length)
{
    const char *near = NULL;
    size_t fewest = MOST_EDITS + 1;
    for (const struct row *row = rows; row < rows + ROWS && length >= LEAST_LETTERS && length <= LONGEST_NAME; row++) {
        size_t here = edits(row->name, text, length);
        if (here < fewest) {
            near = row->name;
            fewest = here;
        }
    }
    return near;
}

static unsigned suffix_shift(char letter)
{
    char suffix = lower(letter);
    return suffix == 'k' ? 10 : suffix == 'm' ? 20 : suffix == 'g' ? 30 : 0;
}

bool hk_option_number(const char *text, size_t length, uint64_t *value)
{
    uint64_t sum = 0;
    size_t at = 0;
    for (; at < length && text[at] >= '0' && text[at] <= '9'; at++) {
        if (sum > (UINT64_MAX - 9) / 10)
            return false;
        sum = sum * 10 + (uint64_t)(text[at] - '0');
    }
    if (at == 0)
        return false;
    unsigned shift = at < length ? suffix_shift(text[at]) : 0;
    if (shift != 0)
        at++;
    if (at != length || sum > UINT64_MAX >> shift)
        return false;
    *value = sum << shift;
    return true;
}

/* Sets *value to the index of the text among words such as "off|on". Returns false if the text is none of them. */
static bool parse_word(const char *words, const char *text, uint64_t *value)
{
    size_t length = strlen(text);
    for (*value = 0; *words != 0; ++*value) {
        size_t word = (size_t)(strchrnul(words, '|') - words);
        if (word == length && strncmp(words, text, length) == 0)
            return true;
        words += word + (words[word] == '|');
    }
    return false;
}

static const char *word_of(const struct row *row, char *word, size_t size)
{
    const char *at = row->unit;
    for (uint64_t left = *number_of(row); left > 0; left--)
        at = strchr(at, '|') + 1;
    size_t length = hk_min((size_t)(strchrnul(at, '|') - at), size - 1);
    memcpy(word, at, length);
    word[length] = 0;
    return word;
}

static void set_text(const struct row *row, const char *text)
{
    size_t bytes = strlen(text) + 1;
    if (bytes > sizeof text_bytes - text_used) {
        hk_message(HK_TEXT_option_texts, row->name, sizeof text_bytes - 1);
        return;
    }
    char *copy = memcpy(text_bytes + text_used, text, bytes);
    text_used += bytes;
    *text_of(row) = *copy != 0 ? copy : NULL;
}

static HK_NOINLINE void set_value(const struct row *row, const char *text)
{
    uint64_t value;
    char word[sizeof row->unit];
    if (row->kind == KIND_WORD ? parse_word(row->unit, text, &value)
                               : hk_option_number(text, strlen(text), &value) && value >= row->min && value <= row->max)
        *number_of(row) = value;
    else if (row->kind == KIND_WORD)
        hk_message(HK_TEXT_option_word, row->name, text, row->unit, word_of(row, word, sizeof word));
    else
        hk_message(HK_TEXT_option_number, row->name, text, row->min, row->max, *number_of(row));
}

bool hk_option_set(const char *name, size_t length, const char *value)
{
    const struct row *row = row_named(name, length);
    if (row != NULL && row->kind == KIND_TEXT)
        set_text(row, value);
    else if (row != NULL)
        set_value(row, value);
    return row != NULL;
}

/* Prints that a name is no option, and suggests a similar name. If there is a prefix, the suggestion is in capitals, as in the environment. */
static void report_unknown(const char *where, const char *prefix, const char *name, size_t length)
{
    const char *near = hk_option_near(name, length);
    char known[sizeof rows[0].name] = "";
    for (size_t i = 0; near != NULL && near[i] != 0; i++)
        known[i] = *prefix != 0 && near[i] >= 'a' && near[i] <= 'z' ? (char)(near[i] - ('a' - 'A')) : near[i];
    if (near != NULL)
        hk_message(HK_TEXT_option_near, where, prefix, (int)length, name, prefix, known);
    else
        hk_message(HK_TEXT_option_unknown, where, prefix, (int)length, name);
}

static void read_conf(void)
{
    const char *conf = hk_os.option_text("HAKMEM_CONF");
    if (conf == NULL)
        return;
    if (strlen(conf) >= sizeof conf_copy) {
        hk_message(HK_TEXT_conf_long, sizeof conf_copy - 1);
        return;
    }
    strcpy(conf_copy, conf);
    for (char *pair = conf_copy, *next; pair != NULL; pair = next) {
        next = strchr(pair, ',');
        if (next != NULL)
            *next++ = 0;
        const char *colon = strchr(pair, ':');
        if (*pair != 0 && colon == NULL)
            hk_message(HK_TEXT_conf_form, pair);
        else if (*pair != 0 && !hk_option_set(pair, (size_t)(colon - pair), colon + 1))
            report_unknown("HAKMEM_CONF: ", "", pair, (size_t)(colon - pair));
    }
}

const char *hk_option_entry(const char *name)
{
    size_t length = strlen(name);
    for (char **entry = hk_os.environment(); *entry != NULL; entry++)
        if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
            return *entry;
    return NULL;
}

/* Returns the text after "HAKMEM_", or NULL for other entries. Calls no function, because most processes run only this code of the file. */
HK_INLINE const char *after_prefix(const char *at)
{
    bool ours =
        at[0] == 'H' && at[1] == 'A' && at[2] == 'K' && at[3] == 'M' && at[4] == 'E' && at[5] == 'M' && at[6] == '_';
    return ours ? at + 7 : NULL;
}

HK_EACH_PROCESS bool hk_options_given(void)
{
    for (char **entry = hk_os.environment(); *entry != NULL; entry++)
        if (after_prefix(*entry) != NULL)
            return !ignored;
    return false;
}

static void read_environment(void)
{
    for (char **entry = hk_os.environment(); *entry != NULL; entry++) {
        const char *name = after_prefix(*entry);
        if (name == NULL || strncmp(name, "CONF=", 5) == 0 || strncmp(name, "LIBRARY=", 8) == 0)
            continue; /* HAKMEM_LIBRARY tells the tools which library to preload */
        const char *equals = strchr(name, '=');
        if (equals != NULL && !hk_option_set(name, (size_t)(equals - name), equals + 1))
            report_unknown("", "HAKMEM_", name, (size_t)(equals - name));
    }
}

/* Returns the text after "profile" (in lower or upper case) and `mark`, or NULL if the text sets another option. */
static const char *as_profile(const char *text, char mark)
{
    static const char name[] = "profile";
    size_t length = sizeof name - 1;
    return strnlen(text, length) == length && same_name(name, text, length) && text[length] == mark ? text + length + 1
                                                                                                    : NULL;
}

/* Applies the profile before all other options, because these override the profile. Looks for HAKMEM_PROFILE first, then in HAKMEM_CONF. */
static void read_profile(hk_profile_taker *take)
{
    const char *value = NULL, *conf = hk_os.option_text("HAKMEM_CONF");
    for (char **entry = hk_os.environment(); *entry != NULL; entry++) {
        const char *name = after_prefix(*entry);
        if (name != NULL && (value = as_profile(name, '=')) != NULL)
            break;
    }
    size_t length = value != NULL ? strlen(value) : 0;
    for (const char *at = conf; value == NULL && at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        value = as_profile(at, ':');
        length = value != NULL ? (size_t)(strchrnul(value, ',') - value) : 0;
    }
    if (length > 0)
        take(value, length);
}

void hk_options_read(hk_profile_taker *take_profile)
{
    text_used = 0;
    if (ignored)
        return;
    read_profile(take_profile);
    read_conf();
    read_environment();
}

void hk_options_ignore(void)
{
    ignored = true;
    hk_options.report = hk_options.explain = hk_options.learn_trace = NULL;
    hk_options.heap_profile = hk_options.profile_save = NULL;
    hk_options.trace_ring = 0;
}

void hk_options_visit(void (*visit)(void *context, const char *name, const char *text, uint64_t number), void *context)
{
    char word[32];
    for (const struct row *row = rows; row < rows + ROWS; row++)
        if (row->kind == KIND_WORD)
            visit(context, row->name, word_of(row, word, sizeof word), 0);
        else if (row->kind == KIND_TEXT)
            visit(context, row->name, *text_of(row) != NULL ? *text_of(row) : "", 0);
        else
            visit(context, row->name, NULL, *number_of(row));
}
