/* Plan: what a player does, made from a recording: a stream of operations on slots for each thread. The player reads it in small pieces,
 * so that its own memory stays out of the figures. A plan is a temporary file of one machine: the player trusts it.
 *
 *   file    struct plan_head, chunks, then a struct plan_thread for each thread at `threads_at`
 *   chunk   struct plan_chunk, then `bytes` of operations of one thread; `next` leads to its next chunk
 *   operation  head of 2 bytes, then slot, size, extra, version */
#ifndef REC_PLAN_H
#define REC_PLAN_H

#include "book.h"

#define PLAN_MAGIC 0x0131204e414c5048ull /* "HPLAN 1", 1 */
#define PLAN_CHUNK_BYTES ((size_t)16384)
#define PLAN_STEP 64u  /* so many operations, or places of the order, lie between two PLAN_SYNC of a thread */
#define PLAN_PAUSE 32u /* who paused for more events of others than this waits for all of them */
#define PLAN_OP_MOST ((size_t)2 + 4 + 7 + 4 + 2)

/* Beside those of recordings. */
enum plan_kind {
    PLAN_TOUCH = REC_REALLOC + 1, /* size: pages, extra: the first */
    PLAN_SYNC,                    /* size: the place of what follows; extra: 1 to wait for all before */
    PLAN_SPAWN,                   /* size: the number of the thread that begins */
    PLAN_KINDS
};

/* The head of an operation. */
enum {
    PLAN_SLOT_AT = 4,     /* 2 bits: 1 to 4 bytes */
    PLAN_SIZE_AT = 6,     /* 3 bits: bytes */
    PLAN_EXTRA_AT = 9,    /* 2 bits: 0, 1, 2 or 4 bytes */
    PLAN_FOREIGN_AT = 11, /* 1: 2 bytes of version follow, which the slot must have first */
    PLAN_LATER_AT = 12,   /* 1: a PLAN_TOUCH says what is touched */
    PLAN_STAMPED_AT = 13, /* 1: the block begins with its stamp */
    PLAN_WEIGHT_AT = 14   /* 1: one block, whatever `copies` says */
};

struct plan_head {
    uint64_t magic;
    uint64_t threads_at, orders;
    uint32_t threads, lanes, slots, copies;
    uint32_t first_thread, unused;
    struct rec_totals totals;
};

struct plan_thread {
    uint64_t first_chunk, first_order;
    uint32_t lane; /* a place in the table of progress; threads that do not overlap share it */
    uint32_t unused;
};

struct plan_chunk {
    uint64_t next; /* in the file; 0: the last */
    uint32_t bytes, unused;
};

/* Writes the plan to the file; false: reader->why has the reason. */
bool plan_write(struct rec_reader *reader, int file);

#endif
