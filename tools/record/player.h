/* Player: plays a plan on the allocator of its own process. It has one thread for each recorded thread, and it writes to blocks as the plan
 * says. */
#ifndef REC_PLAYER_H
#define REC_PLAYER_H

#include "plan.h"

struct player_result {
    uint64_t allocs, frees, reallocs;
    uint64_t bytes;  /* requested by allocations; a realloc counts only the bytes that it adds */
    uint64_t empty;  /* frees and reallocs of a slot without a block */
    uint64_t failed; /* allocations that the allocator refused */
    uint64_t wrong;  /* blocks that overlap, are not aligned or lost their bytes, and operations without a block */
    uint64_t left;   /* live blocks at the end */
    uint64_t faults, cpu_us, wall_us;
    uint64_t peak_rss_kib, heap_kib; /* heap_kib excludes files and memory that was resident before the first call */
};

struct player_options {
    uint64_t window;
    bool dry; /* calls no allocator and writes no block, so that the figures are those of the player itself */
};

/* Plays the plan. Returns false if the plan cannot be played, and *why is then the reason. */
bool player_play(int plan, const struct player_options *options, struct player_result *result, const char **why);

#endif
