/* Defines the work of bench_random_mixed and bench_mid_large_mt. A working set has a number of slots. Each step picks a random slot. If the slot is
 * empty, the step allocates a block of random size for it. Otherwise the step frees the block of the slot. */
#ifndef BENCH_WORKSET_H
#define BENCH_WORKSET_H

#include "bench_common.h"

typedef struct workset {
    void **slot;
    uint64_t count;
    uint64_t min, range;
    bench_rng rng;
} workset;

static inline void run_steps(workset *w, uint64_t steps)
{
    bench_rng rng = w->rng;
    for (uint64_t i = 0; i < steps; i++) {
        uint64_t r = bench_rng_next(&rng);
        void **slot = &w->slot[bench_pick_high(r, w->count)];
        if (*slot != NULL) {
            free(*slot);
            *slot = NULL;
        } else {
            *slot = bench_alloc(w->min + bench_pick_low(r, w->range));
        }
    }
    w->rng = rng;
}

/* Frees the blocks that are live after the last step, and returns their number. */
static inline uint64_t free_rest(const workset *w)
{
    uint64_t live = 0;
    for (uint64_t i = 0; i < w->count; i++) {
        if (w->slot[i] != NULL) {
            live++;
            free(w->slot[i]);
        }
    }
    return live;
}

#endif
