/* Plan: makes a plan from a recording. A plan is a file that tells the player what to do. For each thread, it has a stream of operations on slots.
 * The player reads the plan in small pieces, so that the player's own memory hardly changes the figures. The player does not check every field of
 * a plan, because a plan is a temporary file that this program has written.
 *
 *   file       struct plan_head, chunks, then a struct plan_thread for each thread at `threads_at`
 *   chunk      struct plan_chunk, then `bytes` bytes of operations of one thread; `next` is the offset of the thread's next chunk
 *   operation  an event as in a recording, but its address is the slot, and its order has flags and a version (enum plan_flags) */
#ifndef REC_PLAN_H
#define REC_PLAN_H

#include "book.h"

#define PLAN_MAGIC 0x0331204e414c5048ull /* "HPLAN 1", 3 */
#define PLAN_CHUNK_BYTES ((size_t)16384)
#define PLAN_STEP 64u  /* a thread has a PLAN_SYNC at least once in so many operations and places in the order */
#define PLAN_PAUSE 32u /* if a thread made no call during more events than this, it waits for all earlier events */

/* The kinds of operations that a recording does not have. */
enum plan_kind {
    PLAN_TOUCH = REC_REALLOC + 1, /* writes to `size` pages of the block, from page `extra` on */
    PLAN_SYNC,  /* says that the next operation has the place `size`; if extra is 1, waits for all earlier events */
    PLAN_SPAWN, /* starts the thread with the number `size` */
    PLAN_KINDS
};

/* The order of an operation has these flags and a version. With weight_one, the operation is played for one block, otherwise for `copies` blocks. */
enum plan_flags {
    PLAN_UNSTAMPED = 1, /* the block has no stamp; without this flag, the player checks the stamp */
    PLAN_LATER = 2,     /* the pages of the block are touched by a PLAN_TOUCH that follows */
    PLAN_FOREIGN = 4,   /* the player waits until the slot has the version that begins at bit PLAN_VERSION_AT */
    PLAN_VERSION_AT = 3
};
#define PLAN_NO_ORDER UINT64_MAX /* order of each operation's base, so that the operation's order is stored unchanged */

struct plan_head {
    uint64_t magic;
    uint64_t threads_at;
    uint32_t threads, lanes, slots, copies;
    uint32_t first_thread, unused;
};

struct plan_thread {
    uint64_t first_chunk, first_order;
    uint32_t lane; /* number of the lane; threads that do not run at the same time may share a lane */
    uint32_t unused;
};

struct plan_chunk {
    uint64_t next; /* offset of the next chunk; 0 in the last one */
    uint32_t bytes, unused;
};

/* The plan says at the allocation of a large block how many of its pages will be touched. It also says which threads do not run at the same time.
 * These facts follow only from later events. Therefore an overview collects the facts in a pass over the recording before the plan is written. */
struct overview {
    struct touch *touches; /* sorted by `born` */
    size_t touch_count, next_touch;
    uint64_t *last_order; /* for each thread, the place of its last operation in the order */
    uint32_t last_thread;
    uint64_t *lane_until; /* for each lane (progress.h), the place of the last operation of its last thread */
    uint32_t lanes;
    struct rec_totals totals;
};

/* Reads the recording. On failure, returns false and stores the reason in reader->why. The overview must be closed in both cases. */
bool overview_open(struct overview *overview, struct rec_reader *reader);
void overview_close(struct overview *overview);

/* Stores the number of touched pages of the block that was allocated or resized at this place in the order. Returns false if this is unknown. The
 * caller must ask for the places in ascending order. */
bool overview_touched(struct overview *overview, uint64_t order, uint32_t *pages);
/* Returns the number of a lane for a thread that begins at this place in the order. It is a new lane, or that of an ended thread. */
uint32_t overview_lane(struct overview *overview, uint32_t thread, uint64_t order);

/* Writes the plan to the file. An overview can be used for one plan only. On failure, returns false and stores the reason in reader->why. */
bool plan_write(struct rec_reader *reader, struct overview *overview, int file);

#endif
