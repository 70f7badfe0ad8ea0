#include "procinfo.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Calls line() for each line of a file. The buffers are on the stack, so that it does not allocate. */
static void each_line(const char *path, void (*line)(const char *text, void *context), void *context)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    char chunk[4096];
    char text[512];
    size_t length = 0;
    ssize_t got;
    while ((got = read(fd, chunk, sizeof chunk)) > 0) {
        for (ssize_t i = 0; i < got; i++) {
            if (chunk[i] == '\n') {
                text[length] = '\0';
                line(text, context);
                length = 0;
            } else if (length < sizeof text - 1) {
                text[length++] = chunk[i];
            }
        }
    }
    close(fd);
}

struct field {
    const char *name;
    size_t value;
};

static void find_field(const char *text, void *context)
{
    struct field *field = context;
    size_t length = strlen(field->name);
    if (strncmp(text, field->name, length) == 0) {
        field->value = strtoul(text + length, NULL, 10);
    }
}

static size_t kib_of(const char *path, const char *name)
{
    struct field field = {name, 0};
    each_line(path, find_field, &field);
    return field.value;
}

static size_t status_kib(const char *name) { return kib_of("/proc/self/status", name); }

/* Reads the RSS from smaps, which is exact. VmRSS in the status file can be wrong by many pages for each processor, because since Linux 6.2 each
 * processor has its own counter. */
size_t procinfo_rss_kib(void)
{
    size_t exact = kib_of("/proc/self/smaps_rollup", "Rss:");
    return exact != 0 ? exact : status_kib("VmRSS:");
}

/* An emulator keeps some 40 KiB for each ended thread, and more for each of the first hundreds of threads. So this bound is larger. */
size_t procinfo_of_ended_kib(size_t threads)
{
#ifdef TEST_EMULATOR
    return threads * 96;
#else
    return threads * 0;
#endif
}

bool procinfo_forbid_huge_pages(void) { return prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0; }

size_t procinfo_vmsize_kib(void) { return status_kib("VmSize:"); }

size_t procinfo_locked_kib(void) { return status_kib("VmLck:"); }

size_t procinfo_tables_kib(void) { return status_kib("VmPTE:"); }

static void count_line(const char *text, void *context)
{
    (void)text;
    ++*(size_t *)context;
}

size_t procinfo_mappings(void)
{
    size_t count = 0;
    each_line("/proc/self/maps", count_line, &count);
    return count;
}

/* Adds a line of /proc/self/maps to the sum if it does not belong to the heap. The line is "start-end perms offset dev inode  path". The path is
 * empty for anonymous memory and "[heap]" for brk. */
static void add_not_heap(const char *text, void *context)
{
    char *end;
    unsigned long start = strtoul(text, &end, 16);
    unsigned long stop = strtoul(end + 1, NULL, 16);
    bool file = strchr(text, '/') != NULL;
    bool stack = strstr(text, "[stack]") != NULL;
    bool kernel = strstr(text, "[v") != NULL;
    if (file || stack || kernel) {
        *(size_t *)context += (stop - start) / 1024;
    }
}

size_t procinfo_not_heap_kib(void)
{
    size_t kib = 0;
    each_line("/proc/self/maps", add_not_heap, &kib);
    return kib;
}

static void first_number(const char *text, void *context) { *(size_t *)context = strtoul(text, NULL, 10); }

size_t procinfo_max_map_count(void)
{
    size_t count = 65530;
    each_line("/proc/sys/vm/max_map_count", first_number, &count);
    return count;
}
