/* Player: makes the calls of a plan with the allocator of its own process, in one thread for each recorded thread. Writes to the blocks as the plan
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
    uint64_t peak_rss_kib, heap_kib; /* heap_kib leaves out file pages and what was resident before the first call */
};

struct player_options {
    uint64_t window;
    bool dry; /* no allocator is called and no block is written, so that the figures are those of the player itself */
};

/* Plays the plan. If the plan cannot be played, returns false and stores the reason in *why. */
bool player_play(int plan, const struct player_options *options, struct player_result *result, const char **why);

#endif
