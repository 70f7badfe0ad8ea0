/* The common parts of the traces: their list, random numbers, and the amount of
 * work. A trace takes its memory from bench_heap.h and frees all of it. */
#ifndef TRACES_H
#define TRACES_H

#include "bench_heap.h"

void trace_drift(void);
void trace_matrix(void);
void trace_mstress(void);
void trace_log_ring(void);
void trace_lru(void);
void trace_redis(void);
void trace_sqlite(void);
void trace_sessions(void);
void trace_pages(void);
void trace_json(void);
void trace_compiler(void);
void trace_strings(void);

/* So much of a full run's, by the command line's percentage; never 0. */
uint64_t trace_bytes(uint64_t mib);
uint64_t trace_count(uint64_t n);

uint64_t trace_pick(uint64_t n); /* 0 to n - 1 */
size_t trace_between(size_t low, size_t high);
bool trace_chance(unsigned percent);

/* Packed pointers: a random one out. NULL from an empty table. */
void *trace_take_any(heap_table *t);
void trace_empty(heap_table *t);
bool trace_is_full(const heap_table *t);

#endif
