#include "learn/goal.h"

#include <string.h>

#include "base/bits.h"
#include "base/message.h"
#include "base/number.h"
#include "os/os.h"
#include "policy/options.h"

enum { GROUPS_BYTES = 2048, NUMBERS_BYTES = 64, LOOK_AGAIN_MS = 2000, PERCENT_MOST = 100 };
#define GROUPS "/sys/fs/cgroup"

enum requested { ASKED_NOTHING, REQUESTED_BYTES, ASKED_PERCENT, ASKED_NONE };

static struct {
    enum requested requested;
    uint64_t amount;
    uint64_t memory; /* that there is */
    uint64_t limit;  /* of the group; UINT64_MAX if there is none */
    uint64_t affinity; /* cpus, of the process's first thread: others may be bound to some of them */
    uint64_t cpus;
    uint64_t looked_ms;
} asked_for = {.limit = UINT64_MAX, .cpus = 1};

static const char *word_after(const char *text, const char *key)
{
    const char *found = strstr(text, key);
    return found != NULL ? found + strlen(key) : "";
}

static const char *next_word(const char *text)
{
    while (*text != 0 && *text != ' ')
        text++;
    return *text == ' ' ? text + 1 : text;
}

/* False if there is no such file. */
static bool read_in(const char *group, size_t group_bytes, const char *file, char text[NUMBERS_BYTES])
{
    char path[512] = GROUPS;
    size_t at = sizeof GROUPS - 1;
    if (at + group_bytes + 1 + strlen(file) >= sizeof path)
        return false;
    memcpy(path + at, group, group_bytes);
    path[at + group_bytes] = '/';
    strcpy(path + at + group_bytes + 1, file);
    return hk_os.read_file(path, text, NUMBERS_BYTES) > 0;
}

static uint64_t limit_in(const char *group, size_t group_bytes, const char *file)
{
    char text[NUMBERS_BYTES];
    return read_in(group, group_bytes, file, text) ? hk_number_in(text) : UINT64_MAX;
}

static uint64_t rounded_up(uint64_t quota, uint64_t period)
{
    return quota == UINT64_MAX || period == 0 ? UINT64_MAX : hk_max(1, (quota + period - 1) / period);
}

static uint64_t cpus_in(const char *group, size_t group_bytes)
{
    char text[NUMBERS_BYTES];
    return read_in(group, group_bytes, "cpu.max", text) ? rounded_up(hk_number_in(text), hk_number_in(next_word(text))) : UINT64_MAX;
}

/* A group is held to its own limits and to those of all groups that it lies in. At the start, which every process pays for, only
 * its own are looked at: where a limit is put on purpose, it is there. */
static void look_at_v2(const char *group, size_t bytes, bool all, uint64_t *limit, uint64_t *cpus)
{
    for (;; bytes--) {
        if (bytes > 0 && group[bytes] != '/' && group[bytes] != '\n')
            continue;
        *limit = hk_min(*limit, limit_in(group, bytes, "memory.max"));
        *limit = hk_min(*limit, limit_in(group, bytes, "memory.high"));
        *cpus = hk_min(*cpus, cpus_in(group, bytes));
        if (bytes == 0 || !all)
            return;
    }
}

/* How long the group's path is, which the line begins with; 0 for the root. */
static size_t path_bytes(const char *line)
{
    size_t bytes = (size_t)(strchrnul(line, '\n') - line);
    return bytes > 1 ? bytes : 0;
}

static uint64_t v1_cpus(void)
{
    uint64_t quota = limit_in("/cpu", 4, "cpu.cfs_quota_us");
    return quota == UINT64_MAX ? UINT64_MAX : rounded_up(quota, limit_in("/cpu", 4, "cpu.cfs_period_us"));
}

static void look_at_v1(const char *group, size_t bytes, bool all, uint64_t *limit, uint64_t *cpus)
{
    static const char controller[] = "/memory";
    char path[512];
    size_t prefix = sizeof controller - 1;
    if (prefix + bytes > sizeof path)
        return;
    memcpy(path, controller, prefix);
    memcpy(path + prefix, group, bytes);
    *limit = limit_in(path, prefix + bytes, "memory.limit_in_bytes");
    if (all)
        *limit = hk_min(*limit, limit_in(path, prefix, "memory.limit_in_bytes"));
    *cpus = hk_min(*cpus, v1_cpus());
}

/* Where version 1 has the memory controller, version 2 has it not. */
static void look_at_groups(bool all)
{
    char groups[GROUPS_BYTES];
    uint64_t limit = UINT64_MAX, cpus = asked_for.affinity;
    hk_os.read_file("/proc/self/cgroup", groups, sizeof groups);
    const char *unified = strncmp(groups, "0::", 3) == 0 ? groups + 3 : word_after(groups, "\n0::");
    const char *version_1 = word_after(groups, ":memory:");
    if (*version_1 != 0)
        look_at_v1(version_1, path_bytes(version_1), all, &limit, &cpus);
    else if (*unified != 0)
        look_at_v2(unified, path_bytes(unified), all, &limit, &cpus);
    asked_for.limit = limit < asked_for.memory ? limit : UINT64_MAX;
    asked_for.cpus = hk_max(1, cpus);
}

static void read_option(void)
{
    const char *text = hk_options.goal;
    size_t length = text != NULL ? strlen(text) : 0;
    asked_for.requested = ASKED_NOTHING;
    if (length == 0)
        return;
    if (strcmp(text, "none") == 0)
        asked_for.requested = ASKED_NONE;
    else if (hk_option_number(text, length, &asked_for.amount) && asked_for.amount > 0)
        asked_for.requested = REQUESTED_BYTES;
    else if (text[length - 1] == '%' && hk_option_number(text, length - 1, &asked_for.amount) && asked_for.amount - 1 < PERCENT_MOST)
        asked_for.requested = ASKED_PERCENT;
    else
        hk_message("option goal: \"%s\" is neither bytes, nor a share of 1%% to 100%%, nor none; the limits of the control group hold", text);
}

static uint64_t goal_bytes(void)
{
    uint64_t all = asked_for.limit != UINT64_MAX ? asked_for.limit : asked_for.memory;
    switch (asked_for.requested) {
    case REQUESTED_BYTES: return asked_for.amount;
    case ASKED_PERCENT: return all / 100 * asked_for.amount;
    case ASKED_NONE: return 0;
    default: return asked_for.limit != UINT64_MAX ? asked_for.limit : 0;
    }
}

bool hk_goal_begin(void)
{
    asked_for.memory = hk_os.memory_total();
    asked_for.affinity = asked_for.cpus = hk_os.cpus();
    read_option();
    if (asked_for.requested != ASKED_NONE)
        look_at_groups(asked_for.requested != ASKED_NOTHING);
    return goal_bytes() != 0;
}

static bool may_read(void)
{
    return asked_for.requested == REQUESTED_BYTES || asked_for.requested == ASKED_PERCENT || (hk_options.background == HK_BACKGROUND_ON && asked_for.requested != ASKED_NONE);
}

/* Pages of files are not counted: the system takes them back when it wants to. */
static uint64_t resident_bytes(void)
{
    char text[128];
    if (hk_os.read_file("/proc/self/statm", text, sizeof text) == 0)
        return 0;
    const char *pages = next_word(text), *of_files = next_word(pages);
    uint64_t all = hk_number_in(pages), shared = hk_number_in(of_files);
    return all == UINT64_MAX || shared > all ? 0 : (all - shared) * HK_PAGE;
}

static uint64_t stalled_us(void)
{
    char text[512];
    if (hk_os.read_file("/proc/pressure/memory", text, sizeof text) == 0)
        return 0;
    uint64_t us = hk_number_in(word_after(text, "total="));
    return us == UINT64_MAX ? 0 : us;
}

void hk_goal_look(struct hk_goal *seen, uint64_t now_ms, uint64_t warm_bytes)
{
    bool reads = may_read();
    if (reads && now_ms - asked_for.looked_ms >= LOOK_AGAIN_MS) {
        look_at_groups(true);
        asked_for.looked_ms = now_ms;
    }
    *seen = (struct hk_goal){.bytes = goal_bytes(), .used = warm_bytes, .cpus = asked_for.cpus};
    if (reads)
        seen->stalled_us = stalled_us();
    if (reads && seen->bytes != 0)
        seen->used = hk_max(resident_bytes(), 1);
}
