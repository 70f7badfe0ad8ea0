/* areas: the mappings of this process, from /proc/self/smaps and /proc/self/maps. Read without allocating. */
#ifndef TEST_SITUATIONS_AREAS_H
#define TEST_SITUATIONS_AREAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct area {
    uintptr_t start, end;
    bool writable, private_to_us;
    bool anonymous; /* no file, and none of the kernel's own names, but for the break heap's */
};

enum { AREAS_MOST = 4096 };

/* Up to AREAS_MOST of them, in order of their addresses. */
size_t areas_read(struct area *areas);

/* The sum of one line of /proc/self/smaps_rollup ("AnonHugePages:"), in KiB; SIZE_MAX where it cannot be read. */
size_t areas_rollup_kib(const char *line);

#endif
