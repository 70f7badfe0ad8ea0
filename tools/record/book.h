/* Book: turns the events of a recording into operations for the player. Events have the addresses of blocks. Operations have slots instead, which are
 * places in the player's table of blocks. A slot is reused after its block is freed. The book also counts calls and requested bytes. */
#ifndef REC_BOOK_H
#define REC_BOOK_H

#include "reader.h"

#define REC_NO_SLOT UINT32_MAX

struct rec_live {
    uint64_t address;
    uint64_t size;
    uint64_t born; /* the `order` of the allocation or realloc that gave the block its size */
    uint32_t slot;
    uint8_t align_log; /* logarithm of the alignment */
    bool stamped;    /* The block holds the stamp of the player. A block that ever had fewer than 8 bytes holds none. */
    bool weight_one; /* see struct rec_event */
};

struct rec_op {
    uint8_t kind; /* REC_MALLOC .. REC_NEW_ALIGNED, REC_FREE .. REC_DELETE_SIZED, REC_REALLOC */
    uint32_t thread;
    uint64_t order, size_before;
    struct rec_live
        block; /* the block after an allocation, or before a free or a realloc; for a realloc, `size` is the new size */
    uint32_t touched; /* for a free or realloc: touched pages of the block plus 1, or 0 if unknown */
    uint16_t version; /* number of earlier operations on the slot */
    bool foreign;     /* another thread made the last operation on the slot */
};

struct rec_totals {
    uint64_t events, allocs[REC_KINDS], frees, reallocs;
    uint64_t bytes; /* requested by allocations; a realloc counts only the bytes that it adds */
    uint64_t live_bytes, live_blocks, peak_bytes, peak_blocks;
    uint64_t unknown; /* frees and reallocs of blocks that are older than the recording, or were inherited by fork */
    uint64_t implied; /* allocations at the address of a live block whose free was not recorded */
    uint64_t refused; /* reallocs that failed */
    uint32_t threads, slots;
};

struct rec_book;
typedef bool (*rec_op_sink)(void *context, const struct rec_op *op);

/* Makes an empty book, which passes operations to the sink. `sample` is that of the recording's head. Returns NULL if memory is refused. */
struct rec_book *rec_book_open(size_t threads, uint32_t sample, rec_op_sink sink, void *context);
void rec_book_close(struct rec_book *book);
/* Turns an event into up to two operations, and passes them to the sink. Returns false if the sink returned false, or if memory is refused. */
bool rec_book_enter(struct rec_book *book, const struct rec_event *event);
const struct rec_totals *rec_book_totals(const struct rec_book *book);
/* Passes the operations of the whole recording to the sink, and stores the sums unless `totals` is NULL. Returns false if the sink returned false,
 * if memory is refused, or if the recording is damaged. */
bool rec_book_read(struct rec_reader *reader, rec_op_sink sink, void *context, struct rec_totals *totals);

#endif
