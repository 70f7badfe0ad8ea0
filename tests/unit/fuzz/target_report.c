/* Tests the output of HAKMEM by reading it back. The outputs are reports as JSON, OpenMetrics and text, the heap profile, decisions and signals. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/message.h"
#include "unit/fuzz/fuzz.h"
#include "unit/fuzz/json.h"
#include "hakmem.h"
#include "learn/learner.h"
#include "policy/options.h"
#include "prof/hooks.h"
#include "prof/sample.h"
#include "report/report.h"
#include "runtime/lifecycle.h"
#include "runtime/named_file.h"
#include "unit/fake_os.h"

enum { ROOM = 1 << 20, HELD = 64 };
static char written[ROOM];
static size_t written_bytes;

static void keep_written(int fd, const void *bytes, size_t size)
{
    (void)fd;
    FUZZ_CHECK(written_bytes + size < ROOM);
    memcpy(written + written_bytes, bytes, size);
    written_bytes += size;
    written[written_bytes] = 0;
}

static const char *written_by(void (*write)(int fd, const struct hk_report *report), const struct hk_report *report)
{
    written_bytes = 0;
    written[0] = 0;
    write(1, report);
    return written;
}

/* Sets options to arbitrary texts, and allocates arbitrary blocks. Returns the number of live blocks. */
static size_t make_heap(struct fuzz_input *in, void *held[HELD])
{
    static char texts[4][120];
    const char **fields[] = {&hk_options.report, &hk_options.explain, &hk_options.goal, &hk_options.heap_profile};
    size_t live = 0;
    hk_options.heap_sample = fuzz_byte(in) % 4 == 0 ? 512 : 0;
    hk_options.site_rules = fuzz_byte(in) % 4 == 0 ? HK_SITE_RULES_WATCH : HK_SITE_RULES_OFF;
    FUZZ_CHECK(hk_tcache_get() != NULL);
    for (unsigned i = 0; i < 4; i++) {
        fuzz_text(in, texts[i], 1 + fuzz_byte(in) % sizeof texts[i]);
        *fields[i] = texts[i];
    }
    for (unsigned count = fuzz_byte(in); count > 0; count--) {
        void **slot = &held[fuzz_byte(in) % HELD];
        live += *slot == NULL;
        hak_free(*slot);
        *slot = hak_malloc(fuzz_byte(in) < 240 ? fuzz_below(in, 5000) : fuzz_below(in, 3000000));
    }
    return live;
}

/* Checks a line that has the form name{label="value",...} number. */
static void check_metric(const char *line)
{
    static const char name[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    const char *at = line + strspn(line, name);
    FUZZ_CHECK(at > line, "(\"%.80s\")", line);
    if (*at == '{') {
        for (at++; *at != '}'; at += *at == ',') {
            size_t label = strspn(at, name);
            FUZZ_CHECK(label > 0 && strncmp(at + label, "=\"", 2) == 0, "(\"%.80s\")", line);
            for (at += label + 2; *at != '"'; at++) {
                FUZZ_CHECK(*at != '\n' && *at != 0, "(\"%.80s\")", line);
                at += *at == '\\';
            }
            at++;
        }
        at++;
    }
    FUZZ_CHECK(*at == ' ', "(\"%.80s\")", line);
    char *end;
    strtod(at + 1, &end);
    FUZZ_CHECK(end > at + 1 && *end == '\n', "(\"%.80s\")", line);
}

static void check_metrics(const char *text)
{
    const char *end = NULL;
    for (const char *line = text; *line != 0; line = end + 1) {
        end = strchr(line, '\n');
        FUZZ_CHECK(end != NULL && end > line);
        if (*line != '#')
            check_metric(line);
        else
            FUZZ_CHECK(strncmp(line, "# TYPE hakmem", 13) == 0 || strncmp(line, "# HELP hakmem", 13) == 0 ||
                           strncmp(line, "# UNIT hakmem", 13) == 0 || strcmp(line, "# EOF\n") == 0,
                       "(\"%.80s\")", line);
    }
    FUZZ_CHECK(strlen(text) > 6 && strcmp(text + strlen(text) - 6, "# EOF\n") == 0);
}

static void check_json(const char *text, size_t live)
{
    static const char *const parts[] = {"live",           "rounding",      "large_live",    "thread_caches",
                                        "remote_pending", "free_in_slabs", "slab_tails",    "large_cached",
                                        "idle",           "metadata",      "metadata_spare"};
    const char *fault = json_fault(text), *mapped = strstr(text, "\"mapped\": {");
    uint64_t sum = 0;
    FUZZ_CHECK(fault == NULL && mapped != NULL, "(at \"%.80s\")", fault);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        sum += json_number(mapped, parts[i]);
    FUZZ_CHECK(sum == json_number(mapped, "total"), "(%" PRIu64 ")", sum);
    const char *served = strstr(text, "\"served\": {");
    FUZZ_CHECK(served != NULL && json_number(served, "malloc") - json_number(served, "free") == live);
}

void fuzz_report(struct fuzz_input *in)
{
    static struct hk_report report;
    void *held[HELD] = {NULL};
    hk_os.write = keep_written;
    size_t live = make_heap(in, held);
    in->operations += 100;
    hk_report_take(&report, 0);
    check_json(written_by(hk_report_json, &report), live);
    check_metrics(written_by(hk_report_metrics, &report));
    FUZZ_CHECK(strncmp(written_by(hk_report_text, &report), "HAKMEM ", 7) == 0);
}

/* The lines of the call sites must add up to the first line, and to the live blocks and allocations of the model. */
static struct {
    uint64_t bytes; /* 0: no sample */
    uint64_t record;
} sampled[256];

static void check_profile(uint64_t live, uint64_t bytes, uint64_t all, uint64_t all_bytes)
{
    int64_t first[4], sums[4] = {0, 0, 0, 0}, one[4];
    uint64_t births = 0;
    written_bytes = 0;
    hk_heap_profile_write(1, "");
    FUZZ_CHECK(sscanf(written, "heap profile: %ld: %ld [%ld: %ld] @ heap_v2/", &first[0], &first[1], &first[2],
                      &first[3]) == 4);
    for (const char *line = strchr(written, '\n') + 1; *line != '\n'; line = strchr(line, '\n') + 1) {
        births += strncmp(line, "# live ", 7) == 0;
        if (*line == '#')
            continue;
        FUZZ_CHECK(sscanf(line, "%ld: %ld [%ld: %ld] @ 0x", &one[0], &one[1], &one[2], &one[3]) == 4, "(\"%.80s\")",
                   line);
        for (unsigned i = 0; i < 4; i++)
            sums[i] += one[i];
    }
    FUZZ_CHECK(memcmp(sums, first, sizeof sums) == 0 && births == live, "(%lu births)", (unsigned long)births);
    FUZZ_CHECK((uint64_t)first[0] == live && (uint64_t)first[1] == bytes && (uint64_t)first[2] == all &&
                   (uint64_t)first[3] == all_bytes,
               "(%ld blocks of %ld bytes, not %lu of %lu)", first[0], first[1], (unsigned long)live,
               (unsigned long)bytes);
}

void fuzz_samples(struct fuzz_input *in)
{
    uint64_t live = 0, bytes = 0, all = 0, all_bytes = 0;
    hk_os.write = keep_written;
    FUZZ_CHECK(hk_samples_open(&hk_samples));
    while (fuzz_next(in)) {
        uint8_t op = fuzz_byte(in), at = fuzz_byte(in);
        const void *block = (void *)(0x7f0000000000 + (uintptr_t)at * 48);
        if (sampled[at].bytes == 0) {
            struct hk_stack stack = {.depth = 1 + fuzz_byte(in) % 6u};
            size_t size = 1 + fuzz_word(in) % ((uint64_t)1 << 32);
            for (unsigned i = 0; i < stack.depth; i++)
                stack.frames[i] = (void *)(uintptr_t)(0x400000 + fuzz_byte(in) % 4);
            FUZZ_CHECK(hk_sample_lift(&hk_samples, block, false) == 0);
            if (hk_sample_enter(&hk_samples, block, size, &stack) == HK_SAMPLE_SITES)
                continue; /* The tables are full. */
            sampled[at].bytes = size;
            live++;
            bytes += size;
            all++;
            all_bytes += size;
        } else {
            FUZZ_CHECK(hk_sample_may_be(&hk_samples, block));
            uint64_t record = hk_sample_lift(&hk_samples, block, false);
            FUZZ_CHECK(record != 0 && hk_sample_lift(&hk_samples, block, false) == 0);
            if (op % 4 == 0) {
                FUZZ_CHECK(hk_sample_put(&hk_samples, block, record));
            } else {
                live--;
                bytes -= sampled[at].bytes;
                sampled[at].bytes = 0;
            }
        }
        if (op == 255)
            check_profile(live, bytes, all, all_bytes);
    }
    check_profile(live, bytes, all, all_bytes);
}

/* Each decision must be a line of JSON with the decision's numbers. Each line of the trace must have all signals in order. */
void fuzz_explain(struct fuzz_input *in)
{
    while (fuzz_next(in)) {
        struct hk_text text;
        struct hk_signals signals;
        struct hk_decision decision = {.ms = fuzz_word(in),
                                       .kind = fuzz_below(in, HK_DECISION_KINDS),
                                       .thread = fuzz_byte(in) % 4,
                                       .size = fuzz_word(in),
                                       .seen = {fuzz_word(in), fuzz_word(in), fuzz_word(in)}};
        bool state = decision.kind <= HK_DECISION_state_steady;
        decision.before = state ? fuzz_below(in, HK_PHASES) : fuzz_word(in);
        decision.after = state ? fuzz_below(in, HK_PHASES) : fuzz_word(in);
        hk_text_init(&text, HK_NOWHERE);
        hk_explain_decision(&text, &decision);
        FUZZ_CHECK(hk_path_end(&text) && json_fault(text.bytes) == NULL, "(%s)", text.bytes);
        FUZZ_CHECK(json_number(text.bytes, "ms") == decision.ms &&
                   (decision.thread == 0 || json_number(text.bytes, "class") == decision.size));
        FUZZ_CHECK(state || (json_number(text.bytes, "old") == decision.before &&
                             json_number(text.bytes, "new") == decision.after));
        for (unsigned i = 0; i < HK_SIGNALS; i++)
            signals.value[i] = fuzz_word(in);
        hk_text_init(&text, HK_NOWHERE);
        hk_explain_signals(&text, decision.ms, &signals);
        FUZZ_CHECK(hk_path_end(&text));
        char *at = text.bytes + strlen("tick ");
        FUZZ_CHECK(strncmp(text.bytes, "tick ", 5) == 0 && strtoull(at, &at, 10) == decision.ms);
        for (unsigned i = 0; i < HK_SIGNALS; i++)
            FUZZ_CHECK(strtoull(at, &at, 10) == signals.value[i]);
        FUZZ_CHECK(strcmp(at, "\n") == 0);
    }
}
