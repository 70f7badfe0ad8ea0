/* engine: a stress of the allocator that is told by its seed.
 *
 *   worker t: its own table of slots ──── steps: allocate, check + free, realloc ────┐
 *        │                                                                           │ each block is filled with
 *        └── swaps a slot with a cell of the exchange ── any other worker takes it ──┘ its own seed's pattern
 *
 * A run has generations: all workers of one die before those of the next start, and each of the next takes over the
 * table of another, so that what the dead left is checked and freed by strangers.  Every block's bytes are checked
 * whenever it is freed, grown or shrunk: blocks that overlap, lost bytes and unzeroed calloc memory all show there.
 * Steps are counted, never timed.  What one worker does depends on the seed; who meets whom at the exchange does not. */
#ifndef TEST_STRESS_ENGINE_H
#define TEST_STRESS_ENGINE_H

#include <stddef.h>
#include <stdint.h>

struct engine_plan {
    unsigned threads; /* 1 … ENGINE_THREADS */
    unsigned generations;
    uint64_t steps; /* of each worker in each generation */
    uint64_t seed;
    size_t largest; /* bytes of the largest block */
};

enum { ENGINE_THREADS = 64 };

/* Runs the plan, frees every block and returns the number of steps taken; failures are counted by check.h. */
uint64_t engine_run(const struct engine_plan *plan);

#endif
