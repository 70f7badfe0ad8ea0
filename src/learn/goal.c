/* Finds the memory goal in the option or in the limits of the control group. Reads how much memory and how many CPUs the process may use. */
#include "learn/learner.h"
#include "base/bits.h"
#include "os/maps.h"
#include "os/os.h"

enum { GROUPS_BYTES = 2048, NUMBERS_BYTES = 64, REREAD_MS = 2000, PERCENT_MOST = 100 };
#define GROUPS "/sys/fs/cgroup"

enum requested { GOAL_UNSET, GOAL_BYTES, GOAL_PERCENT, GOAL_NONE };

static struct {
    enum requested requested;
    uint64_t amount;
    uint64_t memory;   /* physical memory of the machine in bytes; 0: not read yet */
    uint64_t limit;    /* limit of the control group in bytes; UINT64_MAX: none */
    uint64_t affinity; /* number of CPUs of the first thread; other threads may be bound to fewer CPUs */
    uint64_t cpus;
    uint64_t groups_read_ms;
    uint64_t stalled_us; /* total time for which tasks of the system have waited for memory; 0: unknown */
} goal_request = {.limit = UINT64_MAX, .cpus = 1};

static const char *word_after(const char *text, const char *key)
{
    const char *found = strstr(text, key);
    return found != NULL ? found + strlen(key) : "";
}

static bool read_group_file(const char *controller, const char *group, size_t bytes, const char *file,
                            char text[NUMBERS_BYTES])
{
    char path[512] = GROUPS;
    size_t at = sizeof GROUPS - 1 + strlen(controller);
    if (at + bytes + 1 + strlen(file) >= sizeof path)
        return false;
    strcpy(path + sizeof GROUPS - 1, controller);
    memcpy(path + at, group, bytes);
    path[at + bytes] = '/';
    strcpy(path + at + bytes + 1, file);
    return hk_os.read_file(path, text, NUMBERS_BYTES) > 0;
}

static uint64_t limit_in(const char *controller, const char *group, size_t bytes, const char *file)
{
    char text[NUMBERS_BYTES];
    return read_group_file(controller, group, bytes, file, text) ? hk_number_in(text) : UINT64_MAX;
}

static uint64_t rounded_up(uint64_t quota, uint64_t period)
{
    return quota == UINT64_MAX || period == 0 ? UINT64_MAX : hk_max(1, (quota + period - 1) / period);
}

/* Reads the limits of a control group. If `all` is true, also reads the limits of the group's ancestors, because they apply too. Without HAKMEM_GOAL,
 * `all` is false at the start, because usually only the process's own group has a limit. */
static void read_limits_v2(const char *group, size_t bytes, bool all, uint64_t *limit, uint64_t *cpus)
{
    for (;; bytes--) {
        if (bytes > 0 && group[bytes] != '/' && group[bytes] != '\n')
            continue;
        *limit = hk_min(*limit, limit_in("", group, bytes, "memory.max"));
        *limit = hk_min(*limit, limit_in("", group, bytes, "memory.high"));
        char text[NUMBERS_BYTES];
        if (read_group_file("", group, bytes, "cpu.max", text))
            *cpus = hk_min(*cpus, rounded_up(hk_number_in(text), hk_number_in(hk_word_behind(text))));
        if (bytes == 0 || !all)
            return;
    }
}

/* Returns the length of the path with which the line begins, or 0 for the path "/" of the root group. */
static size_t path_bytes(const char *line)
{
    size_t bytes = (size_t)(strchrnul(line, '\n') - line);
    return bytes > 1 ? bytes : 0;
}

static void read_limits_v1(const char *group, size_t bytes, bool all, uint64_t *limit, uint64_t *cpus)
{
    *limit = limit_in("/memory", group, bytes, "memory.limit_in_bytes");
    if (all)
        *limit = hk_min(*limit, limit_in("/memory", group, 0, "memory.limit_in_bytes"));
    uint64_t quota = limit_in("/cpu", "", 0, "cpu.cfs_quota_us");
    if (quota != UINT64_MAX)
        *cpus = hk_min(*cpus, rounded_up(quota, limit_in("/cpu", "", 0, "cpu.cfs_period_us")));
}

/* Reads the limits of the process's control group. Tries version 1 first, because version 2 may be mounted beside it without the memory controller.
 * The buffer is static, because malloc may call this function on a small stack. The learner's lock protects the buffer, except at the start. */
static void read_groups(bool all)
{
    static char groups[GROUPS_BYTES] HK_COLD_DATA;
    uint64_t limit = UINT64_MAX, cpus = goal_request.affinity;
    hk_os.read_file("/proc/self/cgroup", groups, sizeof groups);
    const char *unified = strncmp(groups, "0::", 3) == 0 ? groups + 3 : word_after(groups, "\n0::");
    const char *version_1 = word_after(groups, ":memory:");
    if (*version_1 != 0)
        read_limits_v1(version_1, path_bytes(version_1), all, &limit, &cpus);
    else if (*unified != 0)
        read_limits_v2(unified, path_bytes(unified), all, &limit, &cpus);
    goal_request.limit = limit < goal_request.memory ? limit : UINT64_MAX;
    goal_request.cpus = hk_max(1, cpus);
}

HK_EACH_PROCESS bool hk_goal_begin(void)
{
    const char *text = hk_options.goal;
    size_t length = text != NULL ? strlen(text) : 0;
    goal_request.requested = GOAL_UNSET;
    if (length == 0)
        return false;
    if (strcmp(text, "none") == 0)
        goal_request.requested = GOAL_NONE;
    else if (hk_option_number(text, length, &goal_request.amount) && goal_request.amount > 0)
        goal_request.requested = GOAL_BYTES;
    else if (text[length - 1] == '%' && hk_option_number(text, length - 1, &goal_request.amount) &&
             goal_request.amount - 1 < PERCENT_MOST)
        goal_request.requested = GOAL_PERCENT;
    else
        hk_message(HK_TEXT_goal, text);
    return goal_request.requested == GOAL_BYTES || goal_request.requested == GOAL_PERCENT;
}

static uint64_t goal_bytes(void)
{
    uint64_t limit = goal_request.limit;
    switch (goal_request.requested) {
    case GOAL_BYTES: return goal_request.amount;
    case GOAL_PERCENT: return (limit != UINT64_MAX ? limit : goal_request.memory) / 100 * goal_request.amount;
    case GOAL_NONE: return 0;
    default: return limit != UINT64_MAX ? limit : 0;
    }
}

bool hk_goal_find(void)
{
    goal_request.affinity = goal_request.cpus = hk_os.cpus();
    if (goal_request.requested != GOAL_NONE) {
        goal_request.memory = hk_os.memory_total();
        read_groups(goal_request.requested != GOAL_UNSET);
    }
    return goal_bytes() != 0;
}

/* Reads the goal and the memory in use. Pages of files do not count as used, because the system can reclaim them at any time. */
void hk_goal_look(struct hk_signals *saw, uint64_t now_ms)
{
    char text[512];
    uint64_t before = goal_request.stalled_us, stalled = 0;
    bool reads = goal_request.requested == GOAL_BYTES || goal_request.requested == GOAL_PERCENT ||
                 (hk_options.background == HK_BACKGROUND_ON && goal_request.requested != GOAL_NONE);
    if (reads && now_ms - goal_request.groups_read_ms >= REREAD_MS && goal_request.memory != 0) {
        read_groups(true);
        goal_request.groups_read_ms = now_ms;
    }
    if (reads && hk_os.read_file("/proc/pressure/memory", text, sizeof text) != 0)
        stalled = hk_number_in(word_after(text, "total="));
    goal_request.stalled_us = stalled == UINT64_MAX ? 0 : stalled;
    HK_SAW(saw, stalled) = before != 0 ? goal_request.stalled_us - hk_min(goal_request.stalled_us, before) : 0;
    HK_SAW(saw, goal) = goal_bytes();
    HK_SAW(saw, used) = HK_SAW(saw, footprint);
    HK_SAW(saw, cpus) = goal_request.cpus;
    if (!reads || HK_SAW(saw, goal) == 0)
        return;
    HK_SAW(saw, used) = 1;
    if (hk_os.read_file("/proc/self/statm", text, sizeof text) != 0) {
        uint64_t all = hk_number_in(hk_word_behind(text)), shared = hk_number_in(hk_word_behind(hk_word_behind(text)));
        if (all != UINT64_MAX && shared <= all)
            HK_SAW(saw, used) = hk_max((all - shared) * hk_system_page(), 1);
    }
}
