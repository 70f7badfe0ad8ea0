/* Reads the options from the environment and from profiles, which are built in or files. Reports invalid values and unknown names. */
#include "policy/options.h"
#include "base/bits.h"
#include "base/message.h"
#include "os/os.h"

enum kind { KIND_NUMBER, KIND_TEXT, KIND_WORD };

/* The texts are arrays, because pointers would need relocations. */
struct row {
    char name[20], unit[32];
    enum kind kind;
    unsigned offset;
    uint64_t min, max;
};

struct hk_options hk_options = {
#define HK_OPT(kind, name, fallback, min, max, scope, unit, meaning) .name = (fallback),
#include "policy/options.def"
};

static const struct row rows[] = {
#define HK_OPT(kind, name, fallback, min, max, scope, unit, meaning)                                                   \
    {#name, #unit, KIND_##kind, offsetof(struct hk_options, name), (min), (max)},
#include "policy/options.def"
};
enum { ROWS = sizeof rows / sizeof rows[0], LONGEST_NAME = sizeof rows[0].name + 2, LEAST_LETTERS = 4, MOST_EDITS = 2 };
static bool ignored HK_EACH_PROCESS_DATA; /* true in a copy of HAKMEM that does not serve the process */
static char conf_copy[4096] HK_COLD_DATA; /* a copy of HAKMEM_CONF, in which zeros replace the separators */
/* Holds copies of the text values, because a program that sets its title in `ps` overwrites the environment. */
static char text_bytes[8192] HK_COLD_DATA;
static size_t text_used HK_EACH_PROCESS_DATA;

static void *value_of(const struct row *row) { return (char *)&hk_options + row->offset; }

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c; }

HK_INLINE bool same_name(const char *name, const char *text, size_t length)
{
    size_t i = 0;
    while (i < length && name[i] != 0 && lower(text[i]) == name[i])
        i++;
    return i == length && name[i] == 0;
}

/* Returns how many letters must be inserted, dropped or replaced to turn the text into `name`. */
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

static const char *option_near(const char *text, size_t length)
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
    char suffix = at < length ? lower(text[at]) : 0;
    unsigned shift = suffix == 'k' ? 10 : suffix == 'm' ? 20 : suffix == 'g' ? 30 : 0;
    if (shift != 0)
        at++;
    if (at != length || sum > UINT64_MAX >> shift)
        return false;
    *value = sum << shift;
    return true;
}

/* Sets *value to the index of the text among words such as "off|on", where "0" also means off, and "1" on. Returns false if it is none of them. */
static bool parse_word(const char *words, const char *text, uint64_t *value)
{
    const char *same = strcmp(text, "0") == 0 ? "off" : strcmp(text, "1") == 0 ? "on" : text;
    for (*value = 0; *words != 0; ++*value) {
        size_t word = (size_t)(strchrnul(words, '|') - words);
        if ((strncmp(words, text, word) == 0 && text[word] == 0) ||
            (strncmp(words, same, word) == 0 && same[word] == 0))
            return true;
        words += word + (words[word] == '|');
    }
    return false;
}

static const char *word_of(const struct row *row, char *word, size_t size)
{
    const char *at = row->unit;
    for (uint64_t left = *(uint64_t *)value_of(row); left > 0; left--)
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
    *(const char **)value_of(row) = *copy != 0 ? copy : NULL;
}

static HK_NOINLINE void set_value(const struct row *row, const char *text)
{
    uint64_t value;
    char word[sizeof row->unit];
    if (row->kind == KIND_WORD ? parse_word(row->unit, text, &value)
                               : hk_option_number(text, strlen(text), &value) && value >= row->min && value <= row->max)
        *(uint64_t *)value_of(row) = value;
    else if (row->kind == KIND_WORD)
        hk_message(HK_TEXT_option_word, row->name, text, row->unit, word_of(row, word, sizeof word));
    else
        hk_message(HK_TEXT_option_number, row->name, text, row->min, row->max, *(uint64_t *)value_of(row));
}

static bool set_option(const char *name, size_t length, const char *value)
{
    const struct row *row = rows;
    char first = lower(*name);
    while (row < rows + ROWS && (*row->name != first || !same_name(row->name, name, length)))
        row++;
    if (row == rows + ROWS)
        return false;
    (row->kind == KIND_TEXT ? set_text : set_value)(row, value);
    return true;
}

/* Prints that a name is not an option, and suggests a similar name. With a prefix, the suggestion has capital letters, as in the environment. */
static void report_unknown(const char *where, const char *prefix, const char *name, size_t length)
{
    const char *near = option_near(name, length);
    char known[sizeof rows[0].name] = "";
    for (size_t i = 0; near != NULL && near[i] != 0; i++)
        known[i] = *prefix != 0 && near[i] >= 'a' && near[i] <= 'z' ? (char)(near[i] - ('a' - 'A')) : near[i];
    if (near != NULL)
        hk_message(HK_TEXT_option_near, where, prefix, (int)length, name, prefix, known);
    else
        hk_message(HK_TEXT_option_unknown, where, prefix, (int)length, name);
}

/* In the first pass, `profile` is not NULL and receives the first value of the option `profile`. The second pass sets each option. */
static void take_option(const char **profile, const char *where, const char *prefix, const char *name, const char *mark)
{
    size_t length = (size_t)(mark - name);
    if (profile == NULL) {
        if (!set_option(name, length, mark + 1))
            report_unknown(where, prefix, name, length);
    } else if (*profile == NULL && same_name("profile", name, length))
        *profile = mark + 1;
}

static void read_conf(const char **profile, const char *conf)
{
    bool fits = conf != NULL && strlen(conf) < sizeof conf_copy;
    if (conf != NULL && !fits && profile == NULL)
        hk_message(HK_TEXT_conf_long, sizeof conf_copy - 1);
    if (!fits)
        return;
    for (char *rest = strcpy(conf_copy, conf), *pair; (pair = strsep(&rest, ",")) != NULL;) {
        const char *colon = strchr(pair, ':');
        if (colon != NULL)
            take_option(profile, "HAKMEM_CONF: ", "", pair, colon);
        else if (*pair != 0 && profile == NULL)
            hk_message(HK_TEXT_conf_form, pair);
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

/* Returns the text after "HAKMEM_", or NULL for another entry. Calls no function, so that a process without options touches no other code. */
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

/* Sets the options that have variables of their own. Returns the value of HAKMEM_CONF, or NULL. */
static const char *read_environment(const char **profile)
{
    const char *conf = NULL;
    for (char **entry = hk_os.environment(); *entry != NULL; entry++) {
        const char *name = after_prefix(*entry);
        if (name == NULL || strncmp(name, "LIBRARY=", 8) == 0)
            continue; /* HAKMEM_LIBRARY tells the tools which library to preload */
        const char *equals = strchr(name, '=');
        if (strncmp(name, "CONF=", 5) == 0)
            conf = conf != NULL ? conf : name + 5;
        else if (equals != NULL)
            take_option(profile, "", "HAKMEM_", name, equals);
    }
    return conf;
}

enum { LONGEST_LINES = 256, LONGEST_PATH = 1024 };
#define HK_PROFILE(name, lines, meaning) _Static_assert(sizeof lines <= LONGEST_LINES, #name);
#include "policy/profiles.def"

static char file_bytes[8192] HK_COLD_DATA;
static const char spaces[] = " \t\r";

static char *trimmed(char *text)
{
    text += strspn(text, spaces);
    for (size_t length = strlen(text); length > 0 && strchr(spaces, text[length - 1]) != NULL;)
        text[--length] = 0;
    return text;
}

/* Collects which lines of a profile are wrong. Messages never show these lines, because the file may be secret. */
struct reading {
    unsigned line, wrong, first_wrong;
    bool first_has_form; /* the first wrong line has an equals sign */
    const char *near;    /* the option whose name is similar to that in the first wrong line, or NULL */
};

static void apply_line(struct reading *reading, char *line)
{
    *strchrnul(line, '#') = 0;
    char *value = line, *name = trimmed(strsep(&value, "="));
    if (value == NULL && *name == 0)
        return;
    if ((value != NULL && set_option(name, strlen(name), trimmed(value))) || reading->wrong++ > 0)
        return;
    reading->first_wrong = reading->line;
    reading->first_has_form = value != NULL;
    reading->near = option_near(name, strlen(name));
}

static void apply_lines(char *lines, const char *path)
{
    struct reading reading = {0};
    for (char *line = lines, *end; *line != 0; line = end) {
        end = strchrnul(line, '\n');
        if (*end != 0)
            *end++ = 0;
        reading.line++;
        apply_line(&reading, line);
    }
    if (reading.wrong == 0)
        return;
    const char *what = reading.first_has_form ? "names no option" : "is not of the form name = value";
    bool near = reading.near != NULL;
    hk_message(HK_TEXT_profile_lines, path, reading.wrong, reading.line, reading.first_wrong, what,
               near ? "; did you mean " : "", near ? reading.near : "", near ? "?" : "");
}

static const char *read_profile_file(const char *path)
{
    size_t bytes = hk_os.read_file(path, file_bytes, sizeof file_bytes);
    if (bytes > 0)
        return bytes < sizeof file_bytes - 1 ? NULL : "it has 8 KiB or more";
    int fd = hk_os.open(path);
    if (fd < 0)
        return hk_os_error(fd);
    hk_os_close(fd);
    return "it is empty or no regular file";
}

static HK_COLD void apply_file(const char *path)
{
#define HK_PROFILE(name, lines, meaning) ", " #name
    static const char known[] =
#include "policy/profiles.def"
        ;
    const char *wrong = strlen(path) < LONGEST_PATH ? read_profile_file(path) : "the name is too long";
    if (wrong == NULL)
        apply_lines(file_bytes, path);
    else
        hk_message(HK_TEXT_profile_none, path, known + 2, wrong);
}

void hk_profile_apply(const char *name)
{
    char copy[LONGEST_LINES];
    const char *lines = NULL;
#define HK_PROFILE(named, lines_of_it, meaning) lines = strcmp(name, #named) == 0 ? lines_of_it : lines;
#include "policy/profiles.def"
    if (lines != NULL)
        apply_lines(strcpy(copy, lines), "");
    else
        apply_file(name);
}

void hk_options_read(void)
{
    const char *profile = NULL;
    text_used = 0;
    if (ignored)
        return;
    /* The environment is read first, because HAKMEM_PROFILE has priority over a profile in HAKMEM_CONF. */
    const char *conf = read_environment(&profile);
    read_conf(&profile, conf);
    if (profile != NULL && *profile != 0)
        hk_profile_apply(profile);
    read_conf(NULL, conf);
    (void)read_environment(NULL);
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
            visit(context, row->name, *(const char **)value_of(row) != NULL ? *(const char **)value_of(row) : "", 0);
        else
            visit(context, row->name, NULL, *(uint64_t *)value_of(row));
}
