/* Reads the mappings of this process from /proc/self/smaps_rollup and /proc/self/maps, without allocating. */
#ifndef TEST_SITUATIONS_AREAS_H
#define TEST_SITUATIONS_AREAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct area {
    uintptr_t start, end;
    bool writable, private_to_us;
    bool anonymous; /* the mapping has no file, and no name except [heap] */
};

enum { AREAS_MOST = 4096 };

/* Stores up to AREAS_MOST mappings, ordered by address. Returns their number. */
size_t areas_read(struct area *areas);

/* Returns the KiB of one line of /proc/self/smaps_rollup (for example "AnonHugePages:"), or SIZE_MAX if the file cannot be read. */
size_t areas_rollup_kib(const char *line);

#endif
