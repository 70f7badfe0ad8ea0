/* Player: plays a plan on the allocator of its own process. Each recorded thread is a thread; blocks are written as plan.h says. */
#ifndef REC_PLAYER_H
#define REC_PLAYER_H

#include "plan.h"

struct player_result {
    uint64_t allocs, frees, reallocs;
    uint64_t bytes;  /* asked for by allocations, and by reallocs beyond what the block had */
    uint64_t empty;  /* frees and reallocs of a slot without a block */
    uint64_t failed; /* allocations that the allocator refused */
    uint64_t wrong;  /* blocks that overlap, are not aligned, or lost their bytes; operations that fit no block */
    uint64_t left;   /* live blocks at the end */
    uint64_t faults, cpu_us, wall_us;
    uint64_t peak_rss_kib, heap_kib; /* heap: without files, and without what was there before the first call */
};

struct player_options {
    uint64_t window;
    bool dry; /* no call of the allocator, no block written: what the player itself costs */
};

/* False: *why says what is wrong with the plan or the machine. */
bool player_play(int plan, const struct player_options *options, struct player_result *result, const char **why);

#endif
