#include "areas.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char text[1 << 20];

static bool read_all(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t got = fd < 0 ? -1 : 1;
    while (got > 0 && used < sizeof text - 1) {
        got = read(fd, text + used, sizeof text - 1 - used);
        used += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0) {
        close(fd);
    }
    text[used] = '\0';
    return got >= 0;
}

size_t areas_read(struct area *areas)
{
    size_t count = 0;
    if (!read_all("/proc/self/maps")) {
        return 0;
    }
    for (char *line = text; line && *line && count < AREAS_MOST; line = strchr(line, '\n'), line += line != NULL) {
        unsigned long start, end;
        char mode[5], name[8] = "";
        if (sscanf(line, "%lx-%lx %4s %*x %*x:%*x %*u%*1[ ]%*[ ]%7[^\n]", &start, &end, mode, name) >= 3) {
            bool anonymous = name[0] == '\0' || strcmp(name, "[heap]") == 0;
            areas[count++] = (struct area){start, end, mode[1] == 'w', mode[3] == 'p', anonymous};
        }
    }
    return count;
}

size_t areas_rollup_kib(const char *line)
{
    const char *found = read_all("/proc/self/smaps_rollup") ? strstr(text, line) : NULL;
    return found ? strtoul(found + strlen(line), NULL, 10) : SIZE_MAX;
}
