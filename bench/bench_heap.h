/* Watched heap: counts the live bytes of a benchmark exactly, and compares them with resident memory.
 *
 * Counted  Live bytes are those that were requested and not freed yet. They include the trace's own tables of pointers. The RSS is that of the
 *          whole process. It includes code and stacks.
 * Rule     Each block begins with its size (heap_block), as in many programs. Each page of a block is written, because RSS could otherwise be
 *          less than the live bytes.
 * Rule     Only one of the two threads works at a time, and the other thread waits. */
#ifndef BENCH_HEAP_H
#define BENCH_HEAP_H

#include "bench_common.h"

/* The first field of each block. */
typedef struct heap_block {
    uint32_t size;
} heap_block;

/* A table of pointers, which are all NULL at first. The first `count` of them are in use. */
typedef struct heap_table {
    heap_block block;
    uint32_t count;
    void *at[];
} heap_table;

/* A block in a chain, for example one of the blocks of a web page or of a ring. */
typedef struct heap_link {
    heap_block block;
    struct heap_link *next;
} heap_link;

/* A queue of blocks in the order in which they were added. All fields are zero at first. */
typedef struct heap_ring {
    heap_link *oldest, *newest;
} heap_ring;

void *heap_alloc(size_t size);
void *heap_resize(void *block, size_t size); /* block may be NULL */
void heap_free(void *block);                 /* block may be NULL */
heap_table *heap_new_table(uint32_t slots);
heap_link *heap_chain(heap_link *next, size_t size);
void heap_free_chain(heap_link *first);
void heap_append(heap_ring *ring, size_t size);
void heap_trim(heap_ring *ring, uint64_t bytes); /* frees the oldest until at most `bytes` are live; keeps one block */
uint64_t heap_live(void);                        /* bytes */
bench_calls heap_calls(void);

/* Takes a sample at the next operation, and then after each `interval` operations. */
void heap_watch_operations(uint64_t interval);
/* Takes a sample at this place of the series, for example a time in milliseconds. If the series is full, every second sample is removed. So the
 * series does not contain all peaks of RSS. */
void heap_sample(uint64_t at);
void heap_sample_of(uint64_t at, uint64_t live); /* for a caller that counts the bytes itself */
void heap_sample_kib(uint64_t at, uint64_t kib); /* for a caller that measures the KiB itself; live bytes are 0 */
/* Ends a part of the run while blocks are live. Notes the ratio of RSS to live bytes, and the number of mappings. Returns the ratio. */
double heap_phase(const char *name);
/* Runs work(what) on a second thread, and waits until it has returned. */
void heap_elsewhere(void (*work)(void *what), void *what);

/* Ends the second thread. Ends the program with an error if blocks are still live. */
void heap_finish(void);
void heap_put_figures(bench_report *r);
/* Writes the samples as [place, KiB live, KiB resident], for a plot. The text report does not have them. */
void heap_put_series(bench_report *r);

#endif
