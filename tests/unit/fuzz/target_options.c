/* Tests how HAKMEM reads numbers, words, HAKMEM_CONF, the environment and profiles. Compares the options with those of a second reader of
 * options.def and profiles.def. */
#include <ctype.h>
#include <stdio.h>
#include <strings.h>

#include "base/message.h"
#include "unit/fuzz/fuzz.h"
#include "policy/policy.h"
#include "unit/fake_os.h"

enum { VARIABLES = 12, TEXT = 200, KIND_NUMBER = 0, KIND_TEXT, KIND_WORD };

static const struct model_row {
    const char *name, *unit;
    int kind;
    uint64_t fallback, min, max;
} rows[] = {
#define HK_OPT(kind, name, fallback, min, max, scope, unit, meaning)                                                   \
    {#name, #unit, KIND_##kind, (fallback), (min), (max)},
#include "policy/options.def"
#undef HK_OPT
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static struct model_value {
    uint64_t number;
    char text[8192];
} model[ROWS];
static size_t warnings;

static const char *const words[] = {"HAKMEM_",
                                    "learn",
                                    "LEARN",
                                    "=",
                                    ":",
                                    ",",
                                    "on",
                                    "off",
                                    "frozen",
                                    "limit",
                                    "LIMIT",
                                    "profile",
                                    "PROFILE",
                                    "compact",
                                    "throughput",
                                    "/file",
                                    "goal",
                                    "8m",
                                    "1",
                                    "0",
                                    "99999999999999999999",
                                    "k",
                                    "G",
                                    "purge_delay",
                                    "PURGE_DELAY",
                                    "250",
                                    "bin_cap",
                                    "report",
                                    "large_fit",
                                    "100",
                                    "#",
                                    " ",
                                    "\t",
                                    "\r",
                                    "\n",
                                    " = ",
                                    "explain_most",
                                    "4096",
                                    "heap_profile",
                                    "-",
                                    NULL};

/* Returns true if the text consists of digits and at most one suffix, and the number fits into 64 bits. */
static bool model_number(const char *text, uint64_t *value)
{
    unsigned __int128 sum = 0;
    size_t digits = strspn(text, "0123456789");
    for (size_t i = 0; i < digits && sum < (unsigned __int128)1 << 100; i++)
        sum = sum * 10 + (unsigned)(text[i] - '0');
    const char *suffixes = "kmg", *suffix = strchr(suffixes, tolower((unsigned char)text[digits]));
    bool suffixed = text[digits] != 0 && suffix != NULL;
    if (digits == 0 || text[digits + suffixed] != 0)
        return false;
    sum <<= suffixed ? 10 * (suffix - suffixes + 1) : 0;
    *value = (uint64_t)sum;
    return sum <= UINT64_MAX;
}

/* The model allows hk_option_number() to refuse the six largest 64-bit numbers. */
void fuzz_option_number(struct fuzz_input *in)
{
    static const char *const pieces[] = {"0", "1",  "9", "18446744073709551", "615", "k", "K", "m", "g",
                                         "G", "42", NULL};
    char text[64];
    while (fuzz_next(in)) {
        size_t length = fuzz_pieces(in, pieces, text, sizeof text);
        uint64_t value = 77, right = 77;
        bool is = hk_option_number(text, length, &value), should = model_number(text, &right);
        if (should && right > UINT64_MAX - 6)
            continue;
        FUZZ_CHECK(is == should && (!is || value == right), "(\"%s\": %lu)", text, (unsigned long)value);
    }
}

static bool model_word(const char *list, const char *text, uint64_t *value)
{
    char copy[64], *rest = copy;
    snprintf(copy, sizeof copy, "%s", list);
    for (uint64_t i = 0; rest != NULL; i++)
        if (strcmp(strsep(&rest, "|"), text) == 0)
            return *value = i, true;
    return false;
}

static bool model_set(const char *name, size_t length, const char *text)
{
    for (size_t i = 0; i < ROWS; i++) {
        uint64_t value;
        if (strlen(rows[i].name) != length || strncasecmp(rows[i].name, name, length) != 0)
            continue;
        if (rows[i].kind == KIND_TEXT)
            snprintf(model[i].text, sizeof model[i].text, "%s", text);
        else if (rows[i].kind == KIND_NUMBER && model_number(text, &value) && value >= rows[i].min &&
                 value <= rows[i].max)
            model[i].number = value;
        else if (rows[i].kind == KIND_WORD && model_word(rows[i].unit, text, &value))
            model[i].number = value;
        else
            warnings++;
        return true;
    }
    return false;
}

static char *stripped(char *text)
{
    text += strspn(text, " \t\r");
    for (size_t n = strlen(text); n > 0 && strchr(" \t\r", text[n - 1]) != NULL; n--)
        text[n - 1] = 0;
    return text;
}

static void model_profile_lines(const char *lines)
{
    char copy[8192], *rest = copy;
    snprintf(copy, sizeof copy, "%s", lines);
    while (rest != NULL) {
        char *line = strsep(&rest, "\n"), *value = line;
        line[strcspn(line, "#")] = 0;
        char *name = strsep(&value, "=");
        name = stripped(name);
        if (value == NULL && *name == 0)
            continue;
        if (value == NULL || !model_set(name, strlen(name), stripped(value)))
            warnings++;
    }
}

static void model_profile(const char *name, size_t length, const char *file)
{
    static const struct {
        const char *name, *lines;
    } profiles[] = {
#define HK_PROFILE(name, lines, meaning) {#name, lines},
#include "policy/profiles.def"
#undef HK_PROFILE
    };
    for (size_t i = 0; i < sizeof profiles / sizeof profiles[0]; i++)
        if (strlen(profiles[i].name) == length && strncmp(profiles[i].name, name, length) == 0) {
            model_profile_lines(profiles[i].lines);
            return;
        }
    if (length == 5 && strncmp(name, "/file", 5) == 0 && *file != 0)
        model_profile_lines(file);
    else
        warnings++;
}

static const char *is_profile(const char *text, char mark)
{
    return strncasecmp(text, "profile", 7) == 0 && text[7] == mark ? text + 8 : NULL;
}

static void model_read(char **environment, const char *conf, const char *file)
{
    char copy[TEXT], *rest = copy;
    const char *profile = NULL;
    for (char **entry = environment; *entry != NULL && profile == NULL; entry++)
        profile = strncmp(*entry, "HAKMEM_", 7) == 0 ? is_profile(*entry + 7, '=') : NULL;
    size_t length = profile != NULL ? strlen(profile) : 0;
    for (const char *at = conf; at != NULL && profile == NULL;
         at = strchr(at, ',') != NULL ? strchr(at, ',') + 1 : NULL)
        if ((profile = is_profile(at, ':')) != NULL)
            length = strcspn(profile, ",");
    if (length > 0)
        model_profile(profile, length, file);
    snprintf(copy, sizeof copy, "%s", conf != NULL ? conf : "");
    while (rest != NULL) {
        char *pair = strsep(&rest, ","), *colon = strchr(pair, ':');
        if (*pair != 0 && (colon == NULL || !model_set(pair, (size_t)(colon - pair), colon + 1)))
            warnings++;
    }
    for (char **entry = environment; *entry != NULL; entry++) {
        const char *name = *entry + 7, *equals = strchr(*entry, '=');
        if (strncmp(*entry, "HAKMEM_", 7) == 0 && strncmp(name, "CONF=", 5) != 0 && equals != NULL &&
            !model_set(name, (size_t)(equals - name), equals + 1))
            warnings++;
    }
}

static void compare_one(void *context, const char *name, const char *text, uint64_t number)
{
    size_t *row = context;
    const struct model_row *of = &rows[*row];
    char word[64];
    FUZZ_CHECK(*row < ROWS && strcmp(name, of->name) == 0);
    const struct model_value *value = &model[(*row)++];
    if (of->kind == KIND_NUMBER)
        FUZZ_CHECK(text == NULL && number == value->number, "(%s: %lu, not %lu)", name, (unsigned long)number,
                   (unsigned long)value->number);
    else if (of->kind == KIND_TEXT)
        FUZZ_CHECK(strcmp(text, value->text) == 0, "(%s: \"%s\", not \"%s\")", name, text, value->text);
    else
        FUZZ_CHECK((snprintf(word, sizeof word, "%s", text), model_word(of->unit, word, &number)) &&
                       number == value->number,
                   "(%s: \"%s\")", name, text);
}

static size_t lines_said(void)
{
    size_t lines = 0;
    for (const char *at = fake_os.captured; at != NULL && *at != 0;
         at = strchr(at, '\n') != NULL ? strchr(at, '\n') + 1 : NULL)
        lines += strncmp(at, "hakmem: ", 8) == 0;
    return lines;
}

static void begin_model(const struct hk_options *defaults)
{
    hk_options = *defaults;
    warnings = 0;
    for (size_t i = 0; i < ROWS; i++)
        model[i] = (struct model_value){.number = rows[i].fallback};
    fake_os_capture();
    hk_stderr_begin();
}

static void compare_all(void)
{
    size_t row = 0;
    hk_options_visit(compare_one, &row);
    FUZZ_CHECK(row == ROWS);
    if (hk_stderr_is_there())
        FUZZ_CHECK(lines_said() == warnings, "(%zu warnings, not %zu: %s)", lines_said(), warnings, fake_os.captured);
}

void fuzz_options(struct fuzz_input *in)
{
    static char texts[VARIABLES][TEXT], conf[TEXT], file[1000];
    char *environment[VARIABLES + 1];
    struct hk_options defaults = hk_options;
    while (fuzz_next(in)) {
        unsigned count = (unsigned)fuzz_below(in, VARIABLES + 1);
        for (unsigned i = 0; i < count; i++) {
            bool prefixed = fuzz_byte(in) % 8 != 0;
            memcpy(texts[i], "HAKMEM_", 8);
            fuzz_pieces(in, words, texts[i] + 7 * prefixed, TEXT - 7);
            environment[i] = texts[i];
        }
        environment[count] = NULL;
        fuzz_pieces(in, words, conf, sizeof conf);
        fuzz_pieces(in, words, file, sizeof file);
        const struct fake_file files[] = {{"/file", file}, {NULL, NULL}};
        fake_os.environment = environment;
        fake_os.conf = fuzz_byte(in) % 2 == 0 ? conf : NULL;
        fake_os.files = files;
        begin_model(&defaults);
        hk_options_read();
        model_read(environment, fake_os.conf, file);
        compare_all();
    }
    hk_options = defaults;
}

/* Copies the text `from`, and adds blanks around its words. Returns the length of the copy. */
static size_t spread_out(struct fuzz_input *in, char *to, size_t room, const char *from)
{
    size_t used = 0;
    for (; *from != 0 && used + 8 < room; from++) {
        unsigned more = *from == ' ' || *from == '\n' ? fuzz_byte(in) % 4u : 0;
        for (; more > 0; more--)
            to[used++] = more == 2 ? '\t' : ' ';
        to[used++] = *from;
    }
    to[used] = 0;
    return used;
}

/* If a profile is written and read again, the knobs must be unchanged, even if the file has arbitrary other lines. */
void fuzz_profile(struct fuzz_input *in)
{
    static char file[8000];
    struct hk_options defaults = hk_options;
    while (fuzz_next(in)) {
        struct hk_knobs knobs, read;
        for (unsigned knob = 0; knob < HK_KNOBS; knob++) {
            const struct hk_knob_row *row = &hk_knob_rows[knob];
            knobs.value[knob] = row->min + fuzz_word(in) % (row->max - row->min + 1);
        }
        size_t used = fuzz_pieces(in, words, file, 1000);
        file[used++] = '\n';
        begin_model(&defaults);
        struct hk_text saved = {.fd = 1};
        hk_profile_add(&saved, &knobs);
        hk_text_flush(&saved);
        used += spread_out(in, file + used, sizeof file - used - 200, fake_os.captured);
        file[used++] = '#';
        fuzz_text(in, file + used, 100);
        file[used + strcspn(file + used, "\n")] = 0;
        const struct fake_file files[] = {{"/file", file}, {NULL, NULL}};
        fake_os.files = files;
        hk_profile_apply("/file");
        hk_policy_begin();
        hk_policy_read(&read);
        FUZZ_CHECK(memcmp(&read, &knobs, sizeof read) == 0, "(\"%.500s\")", file);
    }
    hk_options = defaults;
    hk_policy_begin();
}
