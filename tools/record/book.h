/* Book: which blocks are live at each event of a recording. Turns events with addresses into operations on slots: a slot is a place in
 * the player's table for the block, reused after its free. Counts what was asked for, exactly. */
#ifndef REC_BOOK_H
#define REC_BOOK_H

#include "reader.h"

#define REC_NO_SLOT UINT32_MAX

struct rec_op {
    uint8_t kind; /* REC_MALLOC .. REC_NEW_ALIGNED, REC_FREE .. REC_DELETE_SIZED, REC_REALLOC */
    uint32_t thread, slot;
    uint64_t order, size, size_before;
    uint32_t align_log;
    uint32_t touched; /* of a free or realloc: pages + 1 of the block before; 0: unknown */
    uint64_t born;    /* the order of the allocation, or of the last realloc, of the block before */
    uint16_t version; /* operations on the slot before this one */
    bool foreign;     /* the one before was another thread's */
    bool stamped;     /* since its allocation, the block had 8 bytes or more all the time */
    bool weight_one;
};

struct rec_totals {
    uint64_t events, allocs[REC_KINDS], frees, reallocs;
    uint64_t bytes; /* asked for, by allocations; a realloc counts what it adds */
    uint64_t live_bytes, live_blocks, peak_bytes, peak_blocks, peak_order;
    uint64_t unknown; /* frees and reallocs of blocks from before the recording, or of a forking parent */
    uint64_t implied; /* allocations at an address that was live: a free was missed */
    uint64_t refused; /* reallocs that failed */
    uint32_t threads, slots;
};

struct rec_book;
typedef bool (*rec_op_sink)(void *context, const struct rec_op *op);

/* NULL: out of memory. */
struct rec_book *rec_book_open(size_t threads, uint32_t sample);
void rec_book_close(struct rec_book *book);
/* Passes the operations of the event, none to two, to the sink. False: the sink said so, or memory is out. */
bool rec_book_enter(struct rec_book *book, const struct rec_event *event, rec_op_sink sink, void *context);
const struct rec_totals *rec_book_totals(const struct rec_book *book);
/* Passes the operations of the whole recording to the sink. False: as above, or the recording is refused. */
bool rec_book_read(struct rec_reader *reader, rec_op_sink sink, void *context, struct rec_totals *totals);

#endif
