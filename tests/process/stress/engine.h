/* Runs a stress test of the allocator that can be repeated by its seed.
 *
 *   worker t: its own table of slots ──── steps: allocate, check + free, realloc ────┐
 *        │                                                                           │ each block is filled with
 *        └── swaps a slot with a cell of the exchange ── any other worker takes it ──┘ its own seed's pattern
 *
 * A run has generations. All workers of one generation end before those of the next start. Each new worker takes over the table of another one, so
 * that it checks and frees blocks that an ended thread left. Every block's bytes are checked when it is freed or resized. The checks find blocks
 * that overlap, lost bytes, and calloc memory that is not zero. The engine counts steps and does not measure time. The seed decides what each
 * worker does, but not which workers meet at the exchange. */
#ifndef TEST_STRESS_ENGINE_H
#define TEST_STRESS_ENGINE_H

#include <stddef.h>
#include <stdint.h>

struct engine_plan {
    unsigned threads; /* 1 … ENGINE_THREADS */
    unsigned generations;
    uint64_t steps; /* number of steps of each worker in each generation */
    uint64_t seed;
    size_t largest; /* bytes of the largest block */
};

enum { ENGINE_THREADS = 64 };

/* Runs the plan, frees every block and returns the number of steps. Failures are counted by check.h. */
uint64_t engine_run(const struct engine_plan *plan);

#endif
