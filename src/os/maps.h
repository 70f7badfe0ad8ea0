/* Maps: reads files of the system line by line, and reads what the kernel reports about each mapping of this process.
 * Threads  Any thread, also a signal handler, may call these functions, which allocate nothing. If a mapping changes during the call, the mapping may
 *          be missed, or reported in its old state. */
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

bool hk_lines_open(struct hk_lines *lines, const char *path);
/* Reads the next line, and cuts it off after size - 1 bytes. Returns false if no complete line follows. */
bool hk_lines_next(struct hk_lines *lines, char *line, size_t size);
void hk_lines_close(struct hk_lines *lines);

struct hk_mapping {
    uintptr_t start, end;
    size_t resident;         /* bytes */
    uintptr_t inode, offset; /* inode of the mapped file, and offset in it; 0 if no file is mapped */
    const char *path;        /* points into the parsed line; empty if the line has no path */
    bool is_code;
};

/* Parses a line of /proc/self/maps, or the first line of a mapping in smaps. Returns false, and sets nothing, for other lines. */
bool hk_mapping_parse(const char *line, struct hk_mapping *mapping);
/* Calls `visit` for each mapping in ascending order, with its resident bytes but without its path. Returns false if no mapping can be read. */
bool hk_smaps_visit(void (*visit)(void *context, const struct hk_mapping *mapping), void *context);

#endif
