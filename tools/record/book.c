/* Turns the events of a recording into operations on slots, and adds up calls and bytes. */
#include "book.h"
#include <search.h>
#include <stdlib.h>

enum { LENDS_FROM = 64 }; /* a list with fewer free slots lends none of them to another thread */

/* The state of a slot, live or free. */
struct slot {
    uint32_t next;   /* the next slot in a thread's list of free slots */
    uint32_t thread; /* the thread that made the last operation on the slot */
    uint16_t version;
};

struct thread {
    uint32_t free_slot, free_count; /* list of free slots, the newest first */
    struct rec_live pending; /* the block that a realloc is resizing; its slot is REC_NO_SLOT if the block is unknown */
    struct rec_event begun;  /* the event at the beginning of the realloc */
    bool reallocs;           /* a realloc has begun and has not ended */
};

struct rec_book {
    void *live; /* search tree of the live blocks by address */
    struct slot *slots;
    struct thread *threads;
    size_t thread_count;
    uint32_t sample;
    rec_op_sink sink;
    void *context;
    struct rec_totals totals;
};

struct rec_book *rec_book_open(size_t threads, uint32_t sample, rec_op_sink sink, void *context)
{
    struct rec_book *book = calloc(1, sizeof *book);
    if (book == NULL)
        return NULL;
    book->threads = calloc(threads + 1, sizeof *book->threads);
    book->thread_count = threads;
    book->sample = sample;
    book->sink = sink;
    book->context = context;
    book->totals.threads = (uint32_t)threads;
    for (size_t i = 0; book->threads != NULL && i < threads; i++)
        book->threads[i].free_slot = REC_NO_SLOT;
    if (book->threads != NULL)
        return book;
    rec_book_close(book);
    return NULL;
}

void rec_book_close(struct rec_book *book)
{
    tdestroy(book->live, free);
    free(book->slots);
    free(book->threads);
    free(book);
}

const struct rec_totals *rec_book_totals(const struct rec_book *book) { return &book->totals; }

/* ---- live blocks ------------------------------------------------------- */

static int by_address(const void *left, const void *right)
{
    const struct rec_live *a = left, *b = right;
    return a->address < b->address ? -1 : a->address > b->address;
}

/* Adds a block, whose address must not be in the book. Returns false if memory is refused. */
static bool keep_live(struct rec_book *book, const struct rec_live *live)
{
    struct rec_live *kept = malloc(sizeof *kept);
    if (kept == NULL)
        return false;
    *kept = *live;
    bool added = tsearch(kept, &book->live, by_address) != NULL;
    if (!added)
        free(kept);
    return added;
}

/* Removes the block with this address, and copies it to *live. Returns false if no live block has the address. */
static bool take_live(struct rec_book *book, uint64_t address, struct rec_live *live)
{
    struct rec_live wanted = {.address = address};
    struct rec_live **found = tfind(&wanted, &book->live, by_address), *kept = found != NULL ? *found : NULL;
    if (kept == NULL)
        return false;
    tdelete(&wanted, &book->live, by_address);
    *live = *kept;
    free(kept);
    return true;
}

/* ---- slots ------------------------------------------------------------- */

/* Moves the older half of the longest list of free slots to a thread. Thus a thread that only allocates can reuse the slots of a thread that
 * only frees. */
static void lend(struct rec_book *book, struct thread *to)
{
    struct thread *from = book->threads;
    for (size_t i = 1; i < book->thread_count; i++)
        from = book->threads[i].free_count > from->free_count ? &book->threads[i] : from;
    if (from->free_count < LENDS_FROM)
        return;
    uint32_t last = from->free_slot, kept = from->free_count / 2;
    for (uint32_t i = 1; i < kept; i++)
        last = book->slots[last].next;
    to->free_slot = book->slots[last].next;
    to->free_count = from->free_count - kept;
    book->slots[last].next = REC_NO_SLOT;
    from->free_count = kept;
}

/* Returns a free slot for an allocation of the thread, or REC_NO_SLOT if memory is refused. */
static uint32_t take_slot(struct rec_book *book, uint32_t thread)
{
    struct thread *of = &book->threads[thread];
    if (of->free_count == 0 && book->thread_count > 1)
        lend(book, of);
    if (of->free_count != 0) {
        uint32_t slot = of->free_slot;
        of->free_slot = book->slots[slot].next;
        of->free_count--;
        return slot;
    }
    struct slot *larger = rec_with_room(book->slots, book->totals.slots, sizeof *larger);
    if (larger == NULL || book->totals.slots + 1 == REC_NO_SLOT)
        return REC_NO_SLOT;
    book->slots = larger;
    book->slots[book->totals.slots] = (struct slot){.thread = thread};
    return book->totals.slots++;
}

static void give_slot(struct rec_book *book, uint32_t slot, uint32_t thread)
{
    struct thread *of = &book->threads[thread];
    book->slots[slot].next = of->free_slot;
    of->free_slot = slot;
    of->free_count++;
}

/* ---- sums -------------------------------------------------------------- */

static uint64_t weight(const struct rec_book *book, bool one) { return one ? 1 : book->sample; }

static void count_live(struct rec_book *book, const struct rec_live *block, uint64_t more, uint64_t less,
                       int64_t blocks)
{
    struct rec_totals *totals = &book->totals;
    uint64_t times = weight(book, block->weight_one);
    totals->live_bytes += (more - less) * times;
    totals->live_blocks += (uint64_t)blocks * times;
    totals->bytes += more > less ? (more - less) * times : 0;
    if (totals->live_blocks > totals->peak_blocks)
        totals->peak_blocks = totals->live_blocks;
    if (totals->live_bytes > totals->peak_bytes)
        totals->peak_bytes = totals->live_bytes;
}

/* ---- operations -------------------------------------------------------- */

/* Sets `version` and `foreign` of the operation from its slot, updates the slot, and passes the operation to the sink. */
static bool pass(struct rec_book *book, struct rec_op *op)
{
    struct slot *slot = &book->slots[op->block.slot];
    op->version = slot->version++;
    op->foreign = slot->thread != op->thread;
    slot->thread = op->thread;
    return book->sink(book->context, op);
}

static struct rec_op op_of(const struct rec_event *event, const struct rec_live *block)
{
    return (struct rec_op){.kind = event->kind, .thread = event->thread, .order = event->order, .block = *block};
}

static bool free_block(struct rec_book *book, const struct rec_event *event, const struct rec_live *live)
{
    struct rec_op op = op_of(event, live);
    op.touched = event->extra;
    book->totals.frees += weight(book, live->weight_one);
    count_live(book, live, 0, live->size, -1);
    bool passed = pass(book, &op);
    give_slot(book, live->slot, event->thread);
    return passed;
}

/* If a block is still live at the address of a new block, frees the live block, because its free was not recorded. */
static bool free_implied(struct rec_book *book, const struct rec_event *event)
{
    struct rec_live live;
    struct rec_event implied = {.order = event->order, .thread = event->thread, .kind = REC_FREE};
    if (!take_live(book, event->address, &live))
        return true;
    book->totals.implied++;
    return free_block(book, &implied, &live);
}

static bool allocate(struct rec_book *book, const struct rec_event *event)
{
    if (event->address == 0)
        return true; /* no allocator returns this address */
    if (!free_implied(book, event))
        return false;
    struct rec_live live = {.address = event->address,
                            .size = event->size,
                            .born = event->order,
                            .slot = take_slot(book, event->thread),
                            .stamped = event->size >= 8,
                            .align_log = (uint8_t)(event->extra & 63),
                            .weight_one = event->weight_one};
    if (live.slot == REC_NO_SLOT || !keep_live(book, &live))
        return false;
    struct rec_op op = op_of(event, &live);
    book->totals.allocs[event->kind] += weight(book, live.weight_one);
    count_live(book, &live, live.size, 0, 1);
    return pass(book, &op);
}

static bool release(struct rec_book *book, const struct rec_event *event)
{
    struct rec_live live;
    if (take_live(book, event->address, &live))
        return free_block(book, event, &live);
    book->totals.unknown++;
    return true;
}

static void begin_realloc(struct rec_book *book, const struct rec_event *event)
{
    struct thread *thread = &book->threads[event->thread];
    thread->reallocs = true;
    thread->begun = *event;
    if (!take_live(book, event->address, &thread->pending)) {
        thread->pending.slot = REC_NO_SLOT;
        book->totals.unknown++;
    }
}

/* Handles a realloc that returned NULL. If the size was 0, the block was freed, as in glibc. Otherwise the block stays as it was. */
static bool refused(struct rec_book *book, struct thread *thread)
{
    if (thread->pending.slot == REC_NO_SLOT)
        return true;
    if (thread->begun.size == 0) {
        thread->begun.kind = REC_FREE;
        return free_block(book, &thread->begun, &thread->pending);
    }
    book->totals.refused++;
    return keep_live(book, &thread->pending);
}

static bool moved(struct rec_book *book, const struct rec_event *event)
{
    struct thread *thread = &book->threads[event->thread];
    if (!thread->reallocs)
        return true; /* the beginning of this realloc was not recorded */
    thread->reallocs = false;
    if (event->address == 0)
        return refused(book, thread);
    struct rec_live *live = &thread->pending;
    bool known = live->slot != REC_NO_SLOT;
    struct rec_event made = {.order = event->order,
                             .address = event->address,
                             .size = thread->begun.size,
                             .thread = event->thread,
                             .kind = known ? REC_REALLOC : REC_MALLOC};
    if (!known)
        return allocate(book, &made);
    if (!free_implied(book, event))
        return false;
    struct rec_op op = op_of(&made, live);
    op.block.size = made.size;
    op.size_before = live->size;
    op.touched = thread->begun.extra;
    live->address = event->address;
    live->size = made.size;
    live->born = event->order;
    live->stamped = live->stamped && made.size >= 8;
    live->align_log = 0;
    book->totals.reallocs += weight(book, live->weight_one);
    count_live(book, live, made.size, op.size_before, 0);
    return pass(book, &op) && keep_live(book, live);
}

bool rec_book_enter(struct rec_book *book, const struct rec_event *event)
{
    book->totals.events++;
    switch (event->kind) {
    case REC_MALLOC:
    case REC_CALLOC:
    case REC_ALIGNED:
    case REC_NEW:
    case REC_NEW_ALIGNED: return allocate(book, event);
    case REC_FREE:
    case REC_DELETE:
    case REC_DELETE_SIZED: return release(book, event);
    case REC_REALLOC: begin_realloc(book, event); return true;
    case REC_MOVED: return moved(book, event);
    default: return true;
    }
}

bool rec_book_read(struct rec_reader *reader, rec_op_sink sink, void *context, struct rec_totals *totals)
{
    struct rec_book *book = rec_book_open(reader->threads, reader->head.sample, sink, context);
    struct rec_event event;
    int found = -1;
    bool sound = book != NULL && rec_reader_rewind(reader);
    while (sound && (found = rec_reader_next(reader, &event)) > 0)
        sound = rec_book_enter(book, &event);
    if (book == NULL)
        return false;
    if (totals != NULL)
        *totals = book->totals;
    rec_book_close(book);
    return sound && found == 0;
}
