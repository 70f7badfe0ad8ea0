/* Plan: a file that is made from a recording and tells the player what to do. It has a stream of operations on slots for each thread. The player
 * reads the plan in small pieces, because the player's own memory must hardly change the figures. The player does not check every field of a plan,
 * because a plan is a temporary file that this program has written.
 *
 *   file       struct plan_head, chunks, then a struct plan_thread for each thread at `threads_at`
 *   chunk      struct plan_chunk, then `bytes` bytes of operations of one thread; `next` is the offset of the thread's next chunk
 *   operation  head of 2 bytes, then slot, size, extra, version */
#ifndef REC_PLAN_H
#define REC_PLAN_H

#include "overview.h"

#define PLAN_MAGIC 0x0231204e414c5048ull /* "HPLAN 1", 2 */
#define PLAN_CHUNK_BYTES ((size_t)16384)
#define PLAN_STEP 64u  /* largest number of operations, or of places of the order, between two PLAN_SYNC of a thread */
#define PLAN_PAUSE 32u /* a thread that paused for more than this number of events waits for all earlier events */
#define PLAN_OP_MOST ((size_t)2 + 4 + 7 + 4 + 2)

/* The kinds of operations that a recording does not have. */
enum plan_kind {
    PLAN_TOUCH = REC_REALLOC + 1, /* writes to `size` pages of the block, from page `extra` on */
    PLAN_SYNC,  /* the next operation has the place `size`; extra is 1 to wait for all events before it */
    PLAN_SPAWN, /* starts the thread with the number `size` */
    PLAN_KINDS
};

/* The bit fields in the head of an operation. The kind has the lowest bits. */
enum {
    PLAN_SLOT_AT = 4,     /* 2 bits; the slot has 1 to 4 bytes */
    PLAN_SIZE_AT = 6,     /* 3 bits; the number of bytes of the size */
    PLAN_EXTRA_AT = 9,    /* 2 bits; extra has 0, 1, 2 or 4 bytes */
    PLAN_FOREIGN_AT = 11, /* a version of 2 bytes follows; the player waits until the slot has this version */
    PLAN_LATER_AT = 12,   /* a PLAN_TOUCH follows, which touches the pages of the block */
    PLAN_STAMPED_AT = 13, /* the block begins with its stamp */
    PLAN_WEIGHT_AT = 14   /* the player repeats the operation for one block, not for `copies` blocks */
};

struct plan_head {
    uint64_t magic;
    uint64_t threads_at;
    uint32_t threads, lanes, slots, copies;
    uint32_t first_thread, unused;
};

struct plan_thread {
    uint64_t first_chunk, first_order;
    uint32_t lane; /* number of the lane (progress.h); threads that do not run at the same time may share a lane */
    uint32_t unused;
};

struct plan_chunk {
    uint64_t next; /* offset of the next chunk; 0 in the last one */
    uint32_t bytes, unused;
};

/* Writes the plan to the file. An overview serves for one plan. Returns false on failure, and reader->why then has the reason. */
bool plan_write(struct rec_reader *reader, struct overview *overview, int file);

#endif
