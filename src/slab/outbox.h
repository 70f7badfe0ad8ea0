/* Outbox: blocks that a thread frees and that are not its own, on their way to the remote bits of their slabs: neighbours wait
 * here until there is a word of them, so that few atomic operations serve many.
 *
 *   free -> entry of the address (64 KiB): its word's bits -- the word or the entry changes --> mark -- the slab changes --> count
 *
 * Owns       a table of entries, found by a hash of the address, made at the first such free; where entries push each other out it
 *            grows. What is not in the table has been marked: it costs no memory, wherever it lies and whoever its owner is.
 * Invariant  what waits is at most `allowed` bytes of blocks, or one block: of all threads together about a 32nd of what is warm.
 * Threads    the outbox: its thread only. deliver and send: any. */
#ifndef HK_OUTBOX_H
#define HK_OUTBOX_H

#include "slab/owner.h"
#include "slab/remote.h"

enum { HK_OUTBOX_ENTRY_SHIFT = 6, HK_OUTBOX_GRANULE_SHIFT = 16 };

struct hk_outbox_entry {
    uintptr_t start; /* of the word's blocks */
    uint64_t bits;   /* of these, what is freed and waits */
    uint64_t reciprocal;
    struct hk_slab *slab;
    size_t bytes;    /* of the word's blocks; 0: nothing fits */
    int64_t block_size;
    uint32_t word;
    uint32_t marked; /* blocks that are to be counted */
} HK_ALIGNED(HK_CACHE_LINE);
#define HK_OUTBOX_FACTOR ((uintptr_t)0x61c88647) /* 2^32 by the golden ratio, squared: neighbours spread evenly */
_Static_assert(sizeof(struct hk_outbox_entry) == 1 << HK_OUTBOX_ENTRY_SHIFT, "the hash is an offset");

struct hk_outbox {
    /* of the fast path: the table, and which bits of the hash are an entry's offset; without a table, or if every free is to be seen,
     * one entry that nothing fits */
    char *entries;
    size_t mask;
    int64_t room; /* bytes */
    /* behind it */
    struct hk_outbox_entry *table; /* NULL: none */
    size_t size;                   /* entries */
    size_t allowed;
    size_t pushed_out; /* entries, since all was sent */
    bool used;         /* since the last pass */
    struct hk_owner *self;
    uint64_t filled[8];      /* bit i: entry i is in use */
    _Atomic uintptr_t xtable; /* for the report: the table, and the logarithm of its size in the lowest bits */
};
enum { HK_OUTBOX_LEAST = 64, HK_OUTBOX_MOST = 512, HK_OUTBOX_MOST_BLOCKS = 64 * HK_SLAB_MOST_WORDS };

/* For one that is zeroed, or was dropped: it takes what is put from now on. `self` counts and traces. */
void hk_outbox_open(struct hk_outbox *outbox, struct hk_owner *self);
/* For one that is zeroed, and will take nothing: the fast path refuses all. */
void hk_outbox_shut(struct hk_outbox *outbox);

/* The offset of a block's entry, and more bits: wherever slabs lie to each other, they do not meet in one entry for long. */
HK_INLINE size_t hk_outbox_hash(const void *block)
{
    return ((uintptr_t)block >> HK_OUTBOX_GRANULE_SHIFT) * HK_OUTBOX_FACTOR >> (28 - HK_OUTBOX_ENTRY_SHIFT);
}

/* A block that is a neighbour of what waits already: it waits too. All others are refused, whatever they are. */
HK_INLINE bool hk_outbox_put_fast(struct hk_outbox *outbox, const void *block)
{
    struct hk_outbox_entry *entry = (struct hk_outbox_entry *)(void *)(outbox->entries + (hk_outbox_hash(block) & outbox->mask));
    uintptr_t offset = (uintptr_t)block - entry->start;
    size_t index;
    if (HK_UNLIKELY(offset >= entry->bytes) || HK_UNLIKELY(!hk_which(offset, entry->reciprocal, &index)))
        return false;
    uint64_t bits = entry->bits;
    if (HK_UNLIKELY(!hk_bit_set(&bits, index)) || HK_UNLIKELY((outbox->room -= entry->block_size) < 0))
        return false;
    entry->bits = bits;
    return true;
}

/* Takes a block of a slab that is another owner's, or nobody's. True if all that waited was sent before. */
bool hk_outbox_put(struct hk_outbox *outbox, void *block);
/* Sends all that waits. */
void hk_outbox_send_all(struct hk_outbox *outbox);
/* The table's memory goes back, if nothing has been put since the last time. What waits must have been sent. */
void hk_outbox_drop_idle(struct hk_outbox *outbox);
/* In any case: the thread ends. */
void hk_outbox_drop(struct hk_outbox *outbox);
/* What the table may be and hold, as the heap is now. */
void hk_outbox_tune(struct hk_outbox *outbox, size_t footprint);
/* Drops what waits without sending it: in a fork child, for threads it does not have. How many blocks it was. */
size_t hk_outbox_forget(struct hk_outbox *outbox);
/* In a fork child, which has one thread at most. */
void hk_outboxes_recount(const struct hk_outbox *survivor);

/* Bytes of blocks that wait, by class: adds to bytes[]. They are not marked yet, or not counted. */
void hk_outbox_count(const struct hk_outbox *outbox, int64_t bytes[HK_CLASSES]);

/* Frees a block whose map entry says `page map entry`, whoever holds it now. */
void hk_remote_free(void *block, uint32_t entry);
/* Hands a slab that is to be queued to whoever holds it now. */
void hk_send(struct hk_slab *slab);

#endif
