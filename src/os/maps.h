/* Maps: reads text files line by line, and parses what the kernel reports about each mapping of this process in /proc/self/maps and smaps.
 * Threads  Any thread, also in a signal handler, may call these functions, which allocate nothing. If another thread changes a mapping during the
 *          call, the mapping may be missed, or reported in its old state. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hk_lines {
    int fd;
    size_t at, got;
    char bytes[512];
};

bool hk_lines_open(struct hk_lines *lines, const char *path);
/* Reads the next line, and cuts it off after size - 1 bytes. If no complete line follows, or the file was not opened, returns false and closes it. */
bool hk_lines_next(struct hk_lines *lines, char *line, size_t size);

/* Returns the word that follows the word at `at`, or an empty text. Spaces separate the words. */
const char *hk_word_behind(const char *at);

struct hk_mapping {
    uintptr_t start, end;
    size_t resident;         /* bytes */
    uintptr_t inode, offset; /* inode of the mapped file, and offset in this file; 0 if no file is mapped */
    const char *path;        /* points into the parsed line; empty if the line has no path */
    bool is_code;
};

/* Parses the first line of a mapping in /proc/self/maps or smaps. Returns false, and sets nothing, for all other lines. */
bool hk_mapping_parse(const char *line, struct hk_mapping *mapping);
/* Calls `visit` for each mapping in ascending order. Sets the mapping's resident bytes, but no path. Returns false if no mapping could be read. */
bool hk_smaps_visit(void (*visit)(void *context, const struct hk_mapping *mapping), void *context);
