/* Publishes new pages of knobs. Applies profiles, which are built in or files, and writes the knobs as a profile. */
#include "policy/policy.h"
#include <string.h>
#include "os/os.h"
#include "base/bits.h"
#include "base/message.h"

static const uint64_t *const options_of_knobs[HK_KNOBS] = {
#define HK_OPT(kind, name, fallback, min, max, scope, unit, meaning) HK_KNOB_IF_##scope(&hk_options.name)
#include "policy/options.def"
};

const struct hk_knob_row hk_knob_rows[HK_KNOBS] = {
#define HK_OPT(kind, name, fallback, min, max, scope, unit, meaning)                                                   \
    HK_KNOB_IF_##scope({#name, #unit, fallback, min, max})
#include "policy/options.def"
};

const char *const hk_phase_names[HK_PHASES] = {"STEADY", "BURST", "REMOTE_HEAVY", "MEM_TIGHT"};

static struct hk_policy first_page = {.xvalue = {
#define HK_OPT(kind, name, fallback, min, max, scope, unit, meaning) HK_KNOB_IF_##scope(fallback)
#include "policy/options.def"
                                      }};
_Atomic(const struct hk_policy *) hk_policy_now = &first_page;

static struct sealing {
    char *start; /* HK_POLICY_PAGES pages of the system */
    unsigned next;
    bool sealed[HK_POLICY_PAGES];
    bool stays_open; /* true if the system did not unseal an earlier set of pages; this set is then never sealed */
} sealing;

void hk_policy_begin(void)
{
    for (unsigned knob = 0; knob < HK_KNOBS; knob++)
        hk_store(first_page.xvalue[knob], *options_of_knobs[knob]);
    hk_store_release(hk_policy_now, &first_page);
}

void hk_policy_read(struct hk_knobs *knobs)
{
    for (unsigned knob = 0; knob < HK_KNOBS; knob++)
        knobs->value[knob] = hk_policy_value(knob);
}

/* Returns the next page to write, or NULL if memory is refused. If a sandbox forbids unsealing, maps new pages once. Does not unmap the old pages,
 * because readers may still use them. */
static struct hk_policy *next_page(void)
{
    char *page = sealing.start + sealing.next * hk_system_page();
    if (sealing.start == NULL || (sealing.sealed[sealing.next] && !hk_os.unseal(page, hk_system_page()))) {
        page = hk_os.map(HK_POLICY_PAGES * hk_system_page());
        if (page != NULL)
            sealing = (struct sealing){.start = page, .stays_open = sealing.start != NULL};
    }
    return (struct hk_policy *)(void *)page;
}

/* Publishes a page even if it cannot be sealed, because the seal only protects the page against stray writes. */
bool hk_policy_publish(const struct hk_knobs *knobs, enum hk_phase state)
{
    struct hk_policy *page = next_page();
    if (page == NULL)
        return false;
    hk_store(page->xstate, state);
    for (unsigned knob = 0; knob < HK_KNOBS; knob++)
        hk_store(page->xvalue[knob], knobs->value[knob]);
    sealing.sealed[sealing.next] = !sealing.stays_open && hk_os.seal(page, hk_system_page());
    sealing.next = (sealing.next + 1) % HK_POLICY_PAGES;
    hk_store_release(hk_policy_now, page);
    return true;
}

static const struct profile {
    const char *name, *lines;
} profiles[] = {
#define HK_PROFILE(name, lines, meaning) {#name, lines},
#include "policy/profiles.def"
};

enum { LONGEST_LINES = 256 };
#define HK_PROFILE(name, lines, meaning) _Static_assert(sizeof lines <= LONGEST_LINES, #name);
#include "policy/profiles.def"

static char file_bytes[8192] HK_COLD_DATA;
static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* Returns the text without surrounding spaces, and writes a zero after its last byte. */
static char *trimmed(char *from, char *to)
{
    while (from < to && is_space(*from))
        from++;
    while (to > from && is_space(to[-1]))
        to--;
    *to = 0;
    return from;
}

/* Collects which lines of a profile are wrong. The text of these lines is never shown, because the file may be a secret. */
struct reading {
    unsigned line, wrong, first_wrong;
    bool first_has_form; /* the first wrong line has an equals sign */
    const char *near;    /* the option that the first wrong line nearly names, or NULL */
};

static void apply_line(struct reading *reading, char *line, char *end)
{
    char *comment = memchr(line, '#', (size_t)(end - line));
    char *equals = memchr(line, '=', (size_t)((comment != NULL ? comment : end) - line));
    char *name = trimmed(line, equals != NULL ? equals : comment != NULL ? comment : end);
    if (equals == NULL && *name == 0)
        return;
    char *value = equals != NULL ? trimmed(equals + 1, comment != NULL ? comment : end) : NULL;
    if ((value != NULL && hk_option_set(name, strlen(name), value)) || reading->wrong++ > 0)
        return;
    reading->first_wrong = reading->line;
    reading->first_has_form = value != NULL;
    reading->near = hk_option_near(name, strlen(name));
}

static void apply_lines(char *lines, const char *path)
{
    struct reading reading = {0};
    for (char *line = lines, *end; *line != 0; line = end) {
        end = strchrnul(line, '\n');
        bool last = *end == 0;
        reading.line++;
        apply_line(&reading, line, end);
        end += !last;
    }
    if (reading.wrong == 0)
        return;
    const char *what = reading.first_has_form ? "names no option" : "is not of the form name = value";
    bool near = reading.near != NULL;
    hk_message(HK_TEXT_profile_lines, path, reading.wrong, reading.line, reading.first_wrong, what,
               near ? "; did you mean " : "", near ? reading.near : "", near ? "?" : "");
}

static const char *lines_named(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof profiles / sizeof profiles[0]; i++)
        if (strlen(profiles[i].name) == length && strncmp(profiles[i].name, name, length) == 0)
            return profiles[i].lines;
    return NULL;
}

/* Reads the file. Returns a text that says what is wrong with the file, or NULL if the file is valid. */
static const char *read_profile_file(const char *path)
{
    size_t bytes = hk_os.read_file(path, file_bytes, sizeof file_bytes);
    int fd = bytes == 0 ? hk_os.open(path) : 0;
    if (fd < 0)
        return hk_os_error(fd);
    if (fd > 0)
        hk_os_close(fd);
    return bytes == 0                      ? "it is empty or no regular file"
           : bytes < sizeof file_bytes - 1 ? NULL
                                           : "it has 8 KiB or more";
}

static HK_COLD void apply_file(const char *name, size_t length)
{
#define HK_PROFILE(name, lines, meaning) ", " #name
    static const char known[] =
#include "policy/profiles.def"
        ;
    char path[1024];
    size_t kept = hk_min(length, sizeof path - 1);
    memcpy(path, name, kept);
    path[kept] = 0;
    const char *wrong = kept == length ? read_profile_file(path) : "the name is too long";
    if (wrong == NULL)
        apply_lines(file_bytes, path);
    else
        hk_message(HK_TEXT_profile_none, path, known + 2, wrong);
}

void hk_profile_apply(const char *name, size_t length)
{
    char copy[LONGEST_LINES];
    const char *lines = lines_named(name, length);
    if (lines != NULL)
        apply_lines(strcpy(copy, lines), "");
    else
        apply_file(name, length);
}

void hk_profile_write(int fd, const struct hk_knobs *knobs)
{
    struct hk_text text;
    hk_text_init(&text, fd);
    hk_text_add(&text, "# hakmem profile\n");
    for (unsigned knob = 0; knob < HK_KNOBS; knob++)
        hk_text_add(&text, "%s = %lu # %s\n", hk_knob_rows[knob].name, knobs->value[knob], hk_knob_rows[knob].unit);
    hk_text_flush(&text);
}
