/* A watched heap: counts its live bytes exactly and compares them with resident
 * memory.
 *
 * Counted  live: the bytes requested and not freed, including the trace's own
 *          tables of pointers. RSS: the whole process, code and stacks included.
 *          Nothing is subtracted.
 * Rule     each block begins with its size (heap_block), as in many programs,
 *          and each page of it is written: else RSS could be below live.
 * Rule     one thread at a time: a second one works while the first waits. */
#ifndef BENCH_HEAP_H
#define BENCH_HEAP_H

#include "bench_common.h"

/* The first field of each block. */
typedef struct heap_block {
    uint32_t size;
} heap_block;

/* Pointers, packed; all NULL at first. */
typedef struct heap_table {
    heap_block block;
    uint32_t count;
    void *at[];
} heap_table;

/* Blocks in a chain: of a page, of a function, of a ring. */
typedef struct heap_link {
    heap_block block;
    struct heap_link *next;
} heap_link;

/* Blocks in the order in which they came. All zero at first. */
typedef struct heap_ring {
    heap_link *oldest, *newest;
} heap_ring;

void *heap_alloc(size_t size);
void *heap_resize(void *block, size_t size); /* NULL: a new one */
void heap_free(void *block);                 /* NULL: nothing */
heap_table *heap_new_table(uint32_t slots);
heap_link *heap_chain(heap_link *next, size_t size);
void heap_free_chain(heap_link *first);
void heap_append(heap_ring *ring, size_t size);
void heap_trim(heap_ring *ring, uint64_t bytes); /* the oldest go until so many are live, all but the newest */
uint64_t heap_live(void);                        /* bytes */
bench_calls heap_calls(void);

/* A sample each time so many operations are done; from then on. */
void heap_watch_operations(uint64_t interval);
/* A sample now, at this place of the series (milliseconds, for one). Where the
 * series is full, every second one goes: of RSS they are samples, not peaks. */
void heap_sample(uint64_t at);
void heap_sample_of(uint64_t at, uint64_t live); /* for a caller that counts the bytes itself */
/* A part of the run ends here, with live blocks: RSS to live, and the number of
 * mappings. Returns RSS to live. */
double heap_phase(const char *name);
/* Runs work(what) on a thread of its own, and waits for its end. */
void heap_elsewhere(void (*work)(void *what), void *what);

/* Dies unless all blocks are free, and ends the other thread. */
void heap_finish(void);
void heap_put_figures(bench_report *r);
/* [place, KiB live, KiB resident], for a picture: in the JSON alone. */
void heap_put_series(bench_report *r);

#endif
