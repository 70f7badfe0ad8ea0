/* Declares the common parts of the traces: their list, random numbers, and the amount of work. A trace allocates with the functions of bench_heap.h,
 * and frees all its blocks. */
#ifndef TRACES_H
#define TRACES_H

#include "bench_heap.h"

/* clang-format off */
#define TRACES(ROW) \
    ROW(drift) ROW(lru) ROW(pages) ROW(json) ROW(sqlite) ROW(mstress) \
    ROW(redis) ROW(compiler) ROW(log_ring) ROW(matrix) ROW(sessions) ROW(strings)
#define DECLARE(name) void trace_##name(void);
TRACES(DECLARE)
/* clang-format on */

/* Scale `mib` and `n`, the amounts of a full run, by the percentage on the command line. trace_bytes() returns bytes. The results are never 0. */
uint64_t trace_bytes(uint64_t mib);
uint64_t trace_count(uint64_t n);

uint64_t trace_pick(uint64_t n); /* 0 to n - 1 */
size_t trace_between(size_t low, size_t high);
bool trace_chance(unsigned percent);

/* Adds blocks of random sizes to a chain, and returns the chain. */
heap_link *trace_chain(heap_link *chain, size_t count, size_t low, size_t high);
/* Frees random blocks of the table until `size` more bytes are within the budget and the table is not full. Then adds a block of `size` bytes. */
void trace_add_within(heap_table *t, uint64_t budget, size_t size);
/* Removes a random pointer from the table, and returns it, or NULL if the table is empty. */
void *trace_take_any(heap_table *t);
void trace_free_table(heap_table *t); /* frees the blocks first */
bool trace_is_full(const heap_table *t);

#endif
