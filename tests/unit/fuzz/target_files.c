/* Tests the readers of system files: smaps, the limits of control groups, /proc/self/stat, and the mode of huge pages. Also tests the names of
 * files. */
#include <stdio.h>
#include <stdlib.h>

#include "base/message.h"
#include "unit/fuzz/fuzz.h"
#include "learn/learner.h"
#include "policy/options.h"
#include "os/maps.h"
#include "runtime/named_file.h"
#include "span/bootstrap.h"
#include "span/chunks.h"
#include "unit/fake_os.h"

enum { MAPPINGS = 512 };

struct mappings {
    struct hk_mapping all[MAPPINGS];
    size_t count;
};

static void note_mapping(void *context, const struct hk_mapping *mapping)
{
    struct mappings *to = context;
    if (to->count < MAPPINGS)
        to->all[to->count++] = *mapping;
}

static uint64_t digits_of(const char *text, const char *digits)
{
    uint64_t value = 0, base = strlen(digits);
    for (size_t i = 0, n = strspn(text, digits); i < n; i++)
        value = value * base + (uint64_t)(strchr(digits, text[i]) - digits);
    return value;
}

/* Reads the mappings line by line. Only the first 63 characters of a line are read. A last line without a newline is ignored. */
static void model_smaps(const char *text, struct mappings *model)
{
    static const char hex[] = "0123456789abcdef";
    struct hk_mapping now = {0};
    uintptr_t visited = 0;
    model->count = 0;
    for (const char *end; (end = strchr(text, '\n')) != NULL; text = end + 1) {
        char line[64];
        snprintf(line, sizeof line, "%.*s", (int)(end - text), text);
        size_t first = strspn(line, hex);
        if (first > 0 && line[first] == '-') {
            const char *at = line + first + 1;
            now = (struct hk_mapping){.start = digits_of(line, hex), .end = digits_of(at, hex)};
            at += strspn(at, hex);
            at += *at == ' ';
            for (int word = 0; word < 3; word++) {
                at += strcspn(at, " ");
                at += strspn(at, " ");
            }
            now.inode = digits_of(at, "0123456789");
        } else if (now.start >= visited && strncmp(line, "Rss:", 4) == 0) {
            visited = now.end;
            const char *at = line + strcspn(line, " ");
            now.resident = digits_of(at + strspn(at, " "), "0123456789") * 1024;
            note_mapping(model, &now);
        }
    }
}

void fuzz_smaps(struct fuzz_input *in)
{
    static const char *const pieces[] = {"7f00a000-",
                                         "7f00b000 rw-p ",
                                         "00000000 08:02 1735 ",
                                         "\n",
                                         "Rss:",
                                         "      12 kB\n",
                                         " ",
                                         "5580-66",
                                         "Pss:   4 kB\n",
                                         "0",
                                         "f",
                                         "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0    [vsyscall]\n",
                                         "Rss:   0 kB\n",
                                         NULL};
    static char text[6000];
    static struct mappings seen, model;
    while (fuzz_next(in)) {
        fuzz_pieces(in, pieces, text, sizeof text);
        seen.count = 0;
        fake_os.file = text;
        bool any = hk_smaps_visit(note_mapping, &seen);
        fake_os.file = NULL;
        model_smaps(text, &model);
        FUZZ_CHECK(any == (model.count > 0) && seen.count == model.count, "(%zu, %zu)", seen.count, model.count);
        for (size_t i = 0; i < seen.count; i++)
            FUZZ_CHECK(seen.all[i].start == model.all[i].start && seen.all[i].end == model.all[i].end &&
                       seen.all[i].inode == model.all[i].inode && seen.all[i].resident == model.all[i].resident);
    }
}

enum { GROUP_FILES = 16 };
static struct fake_file group_files[GROUP_FILES + 1];

static const char *file_of(const char *folder, size_t length, const char *name)
{
    char path[1200];
    snprintf(path, sizeof path, "/sys/fs/cgroup%.*s/%s", (int)length, folder, name);
    for (const struct fake_file *file = group_files; file->path != NULL; file++)
        if (strcmp(file->path, path) == 0)
            return file->text;
    return "";
}

static uint64_t number_or_none(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits == 0 ? UINT64_MAX : strtoull(text, NULL, 10);
}

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static uint64_t cpus_of(const char *text)
{
    const char *space = strchr(text, ' ');
    uint64_t quota = number_or_none(text), period = space != NULL ? number_or_none(space + 1) : UINT64_MAX;
    if (quota == UINT64_MAX || period == 0)
        return UINT64_MAX;
    uint64_t cpus = (uint64_t)(((unsigned __int128)quota + period - 1) / period);
    return cpus > 0 ? cpus : 1;
}

/* Reads the limits of the control group, and those of its ancestors if `all` is true. */
static void model_group(const char *group, bool all, uint64_t *limit, uint64_t *cpus)
{
    for (size_t length = strlen(group);; length--) {
        if (length > 0 && group[length] != '/' && group[length] != 0)
            continue;
        *limit = least(*limit, number_or_none(file_of(group, length, "memory.max")));
        *limit = least(*limit, number_or_none(file_of(group, length, "memory.high")));
        *cpus = least(*cpus, cpus_of(file_of(group, length, "cpu.max")));
        if (length == 0 || !all)
            return;
    }
}

/* Makes files with limits for the folders of a control group. The limits fit into 64 bits. */
static void make_group_files(struct fuzz_input *in, char *groups, char *group)
{
    static const char *const names[] = {"memory.max", "memory.high", "cpu.max"};
    static char paths[GROUP_FILES][400], texts[GROUP_FILES][64];
    unsigned depth = (unsigned)fuzz_below(in, 5), count = (unsigned)fuzz_below(in, GROUP_FILES - 1);
    size_t used = 0;
    group[0] = 0;
    for (unsigned i = 0; i < depth; i++)
        used += (size_t)sprintf(group + used, "/%c%.*s", 'a' + (int)i, (int)fuzz_below(in, 6), "-slice");
    sprintf(groups, "%s0::%s\n", fuzz_byte(in) % 2 == 0 ? "" : "1:name=systemd:/x\n", depth == 0 ? "/" : group);
    for (unsigned i = 0; i < count; i++) {
        unsigned name = (unsigned)fuzz_below(in, 3);
        size_t length = fuzz_below(in, used + 1);
        while (length < used && group[length] != '/')
            length++;
        sprintf(paths[i], "/sys/fs/cgroup%.*s/%s", (int)length, group, names[name]);
        uint64_t amount = fuzz_bytes(in, 5), period = fuzz_bytes(in, 2);
        if (fuzz_byte(in) % 4 == 0)
            sprintf(texts[i], name == 2 ? "max %lu\n" : "max\n", (unsigned long)period);
        else
            sprintf(texts[i], name == 2 ? "%lu %lu\n" : "%lu\n", (unsigned long)amount, (unsigned long)period);
        group_files[i] = (struct fake_file){paths[i], texts[i]};
    }
    group_files[count] = (struct fake_file){"/proc/self/cgroup", groups};
    group_files[count + 1] = (struct fake_file){NULL, NULL};
}

void fuzz_goal(struct fuzz_input *in)
{
    static const char *const requests[] = {NULL, "none", "1g", "50%", "100%"};
    char groups[600], group[300];
    const char *goal_before = hk_options.goal;
    fake_os.files = group_files;
    while (fuzz_next(in)) {
        unsigned request = (unsigned)fuzz_below(in, 5);
        uint64_t memory = fuzz_bytes(in, 5) + 1, cpus = 1 + fuzz_byte(in), limit = UINT64_MAX, least_cpus;
        make_group_files(in, groups, group);
        hk_options.goal = requests[request];
        fake_os.memory_total = memory;
        fake_os.cpus = least_cpus = cpus;
        struct hk_signals seen = {{[HK_SIGNAL_footprint] = 4711}};
        FUZZ_CHECK(hk_goal_begin() == (request >= 2));
        bool any = hk_goal_find();
        hk_goal_look(&seen, 0);
        if (request != 1)
            model_group(group, request != 0, &limit, &least_cpus);
        limit = limit < memory ? limit : UINT64_MAX;
        uint64_t all = limit != UINT64_MAX ? limit : memory;
        uint64_t bytes = request == 2                          ? (uint64_t)1 << 30
                         : request >= 3                        ? all / 100 * (request == 3 ? 50 : 100)
                         : request == 0 && limit != UINT64_MAX ? limit
                                                               : 0;
        FUZZ_CHECK(HK_SAW(&seen, goal) == bytes && any == (bytes != 0), "(%lu, not %lu)",
                   (unsigned long)HK_SAW(&seen, goal), (unsigned long)bytes);
        FUZZ_CHECK(HK_SAW(&seen, cpus) == least_cpus, "(%lu cpus, not %lu)", (unsigned long)HK_SAW(&seen, cpus),
                   (unsigned long)least_cpus);
        FUZZ_CHECK(request >= 2 || HK_SAW(&seen, used) == 4711);
    }
    hk_options.goal = goal_before;
}

/* If the files contain arbitrary text, the results must still lie in their ranges. */
void fuzz_goal_text(struct fuzz_input *in)
{
    static const char *const pieces[] = {
        "0::/", "/a", "\n", ":memory:/", "1:name=x:", "..", "total=", "12345 ", "max", "99999999999999999999",
        "-1",   " ",  NULL};
    static char texts[5][700];
    const char *goal_before = hk_options.goal;
    hk_options.goal = "1g";
    while (fuzz_next(in)) {
        static const char *const paths[] = {"/proc/self/cgroup", "/proc/self/statm", "/proc/pressure/memory",
                                            "/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
                                            "/sys/fs/cgroup/cpu/cpu.cfs_quota_us"};
        for (unsigned i = 0; i < 5; i++) {
            fuzz_pieces(in, pieces, texts[i], sizeof texts[i]);
            group_files[i] = (struct fake_file){paths[i], texts[i]};
        }
        group_files[5] = (struct fake_file){NULL, NULL};
        fake_os.files = group_files;
        struct hk_signals seen = {{[HK_SIGNAL_footprint] = 1}};
        FUZZ_CHECK(hk_goal_begin() && hk_goal_find());
        hk_goal_look(&seen, fuzz_word(in));
        FUZZ_CHECK(HK_SAW(&seen, goal) == (uint64_t)1 << 30 && HK_SAW(&seen, used) >= 1 && HK_SAW(&seen, cpus) >= 1 &&
                   HK_SAW(&seen, cpus) <= fake_os.cpus);
    }
    hk_options.goal = goal_before;
}

void fuzz_foreign(struct fuzz_input *in)
{
    static const char *const pieces[] = {
        "1 (a name) S ", "1 ", "2 3 4 5 6 7 8 9 ", ")", "(", "140000000 ", "x", " ", NULL};
    char text[900];
    while (fuzz_next(in)) {
        fuzz_pieces(in, pieces, text, sizeof text);
        const struct fake_file files[] = {{"/proc/self/stat", text}, {NULL, NULL}};
        uintptr_t end = fuzz_word(in) >> 16, start = 0, p = fuzz_word(in) >> 16;
        fake_os.files = files;
        fake_os.break_start = 1; /* Makes the fake OS invent the text of /proc/self/stat. */
        fake_os.break_end = end;
        const char *at = strrchr(text, ')');
        at = at != NULL ? at : text;
        for (int field = 2; field < 47 && at != NULL; field++)
            at = (at = strchr(at, ' ')) != NULL ? at + 1 : NULL;
        if (at != NULL && *at >= '0' && *at <= '9')
            start = digits_of(at, "0123456789");
        if (fuzz_byte(in) % 2 == 0)
            p = start + p % 64;
        size_t readable = start != 0 && p >= start && p < end ? end - p : 0;
        FUZZ_CHECK(hk_foreign_readable((void *)p) == readable, "(\"%s\")", text);
    }
}

void fuzz_thp(struct fuzz_input *in)
{
    static const char *const pieces[] = {"always ", "madvise ", "never ",    "inherit ", "[",  "]",
                                         "[never]", "[always]", "[inherit]", "[madvise", "\n", NULL};
    char all[60], huge[60];
    while (fuzz_next(in)) {
        fuzz_pieces(in, pieces, all, sizeof all);
        fuzz_pieces(in, pieces, huge, sizeof huge);
        const struct fake_file files[] = {{"/sys/kernel/mm/transparent_hugepage/enabled", all},
                                          {"/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled", huge},
                                          {NULL, NULL}};
        fake_os.files = files;
        hk_thp_look();
        enum { SEEN = 31 }; /* HAKMEM reads so many bytes of a file, which are enough for each text of the kernel */
        const char *of_all = memchr(all, '[', strnlen(all, SEEN)), *of_huge = memchr(huge, '[', strnlen(huge, SEEN));
        char mode = of_huge != NULL && of_huge - huge < SEEN - 1 ? of_huge[1] : of_huge != NULL ? 0 : 'i';
        if (mode == 'i')
            mode = of_all != NULL && of_all - all < SEEN - 1 ? of_all[1] : 0;
        FUZZ_CHECK(hk_thp_serves() == (mode != 'n' && hk_system_page() == HK_PAGE), "(\"%s\", \"%s\")", all, huge);
    }
}

void fuzz_named_path(struct fuzz_input *in)
{
    static const char *const pieces[] = {"%p", "%", "p", "/tmp/", "report.json", "%%p", "%d", "x", NULL};
    char name[1200], model[8000];
    while (fuzz_next(in)) {
        struct hk_text path;
        size_t used = 0;
        fuzz_pieces(in, pieces, name, sizeof name);
        for (const char *at = name; *at != 0; at++) {
            if (strncmp(at, "%p", 2) == 0) {
                used += (size_t)sprintf(model + used, "%d", hk_os.process_id());
                at++;
            } else {
                model[used++] = *at;
            }
        }
        model[used] = 0;
        bool fits = hk_named_path(&path, name, NULL);
        FUZZ_CHECK(fits == (used < sizeof path.bytes) && (!fits || strcmp(path.bytes, model) == 0), "(\"%s\")", name);
    }
}
