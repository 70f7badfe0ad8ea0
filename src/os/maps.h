/* Maps: reads files of the system line by line, and what the kernel says about each mapping of this process.
 * Threads  any, a signal handler too; allocates nothing. A mapping that changes while it is read may be missed, or reported in its old state. */
#ifndef HK_MAPS_H
#define HK_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hk_lines {
    int fd;
    size_t at, got;
    char bytes[512];
};

/* False if the file cannot be opened. */
bool hk_lines_open(struct hk_lines *lines, const char *path);
/* Reads the next line, cut off after size - 1 bytes; false if there is none, or the line has no end. */
bool hk_lines_next(struct hk_lines *lines, char *line, size_t size);
void hk_lines_close(struct hk_lines *lines);

struct hk_mapping {
    uintptr_t start, end;
    size_t resident;         /* bytes */
    uintptr_t inode, offset; /* the file that is mapped, and the place in it; 0 if no file is mapped */
    const char *path;        /* in the line; empty if there is none */
    bool is_code;
};

/* Reads a line of /proc/self/maps, or the first one of a mapping in smaps; false for other lines, and then nothing is set. */
bool hk_mapping_parse(const char *line, struct hk_mapping *mapping);
/* Visits all mappings in ascending order, with the resident bytes and without the paths; false if they cannot be read. */
bool hk_smaps_visit(void (*visit)(void *context, const struct hk_mapping *mapping), void *context);

#endif
