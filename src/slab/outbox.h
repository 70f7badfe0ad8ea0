/* The outbox holds a thread's remote frees until they are marked in their slabs. One atomic operation marks all waiting blocks of a bitmap word.
 *
 *   a block is freed              -> its bit is set in the entry that its address selects; an entry holds one bitmap word of one slab
 *   another word needs the entry  -> the old word's blocks are marked, and also counted if the new word is of another slab (remote.h)
 *
 * Owns       An outbox owns a table of entries, which is made at the thread's first remote free. A hash of a block's address selects the entry.
 *            The table grows if slabs often evict each other. Blocks that left the table are marked, and need no memory in the outbox.
 * Invariant  At most `allowed` bytes or one larger block wait in an outbox. All outboxes hold at most about 512 KiB + 1/32 of the footprint.
 * Threads    Only the thread of an outbox uses the outbox. Any thread may call hk_remote_free() and hk_send(). */
#pragma once

#include "slab/owner.h"
#include "slab/remote.h"

enum { HK_OUTBOX_ENTRY_SHIFT = 6, HK_OUTBOX_GRANULE_SHIFT = 16 };

struct hk_outbox_entry {
    uintptr_t start;     /* address of the first block of the bitmap word */
    uint64_t bits;       /* bit i is set if block i of the word waits */
    uint64_t reciprocal; /* copy of the slab's `reciprocal` */
    struct hk_slab *slab;
    size_t bytes; /* total size of the word's blocks; if 0, the fast path refuses all blocks */
    int64_t block_size;
    uint32_t word;   /* index of the word in the slab's bitmap */
    uint32_t marked; /* number of blocks whose remote bits are set, but which the slab does not count yet (remote.h) */
} HK_ALIGNED(HK_CACHE_LINE);
/* 2^32 divided by the square of the golden ratio. This factor spreads the hashes of successive ranges of 64 KiB evenly. */
#define HK_OUTBOX_FACTOR ((uintptr_t)0x61c88647)
_Static_assert(sizeof(struct hk_outbox_entry) == 1 << HK_OUTBOX_ENTRY_SHIFT, "the hash is an offset");

struct hk_outbox {
    /* The fast path uses these fields. It is shut if there is no table, or if every free is traced or tracked. */
    char *entries; /* the table; if the fast path is shut, one entry that accepts no block */
    size_t mask;   /* makes the offset of an entry from a hash; 0 if the fast path is shut */
    int64_t room;  /* bytes of blocks that may still be put before all are sent */
    /* Only the slow path uses these fields. */
    struct hk_outbox_entry *table; /* NULL if there is none */
    size_t size;                   /* number of entries */
    size_t allowed;                /* bytes of blocks for which an empty outbox has room */
    size_t evicted;                /* entries evicted since the last hk_outbox_tune() */
    bool used;                     /* true if a block was put since the last hk_outbox_drop_idle() */
    struct hk_owner *self;
    uint64_t filled[8];       /* bit i is set if entry i is in use */
    _Atomic uintptr_t xtable; /* address of the table plus log2 of its size (the address is aligned); for the report */
};
enum { HK_OUTBOX_LEAST = 64, HK_OUTBOX_MOST = 512, HK_OUTBOX_MOST_BLOCKS = 64 * HK_SLAB_MOST_WORDS };

/* Makes a zeroed or dropped outbox accept blocks. `self` is the owner of the outbox's thread, which counts and traces the frees. */
void hk_outbox_open(struct hk_outbox *outbox, struct hk_owner *self);
/* Makes the fast path of a zeroed outbox refuse all blocks. */
void hk_outbox_shut(struct hk_outbox *outbox);

/* Returns a hash whose low bits are the offset of a block's entry. The hash spreads slabs evenly over the table, even if they lie far apart. */
HK_INLINE size_t hk_outbox_hash(const void *block)
{
    return ((uintptr_t)block >> HK_OUTBOX_GRANULE_SHIFT) * HK_OUTBOX_FACTOR >> (28 - HK_OUTBOX_ENTRY_SHIFT);
}
HK_INLINE struct hk_outbox_entry *hk_outbox_entry_of(const struct hk_outbox *outbox, const void *block)
{
    struct hk_outbox_entry *entry =
        (struct hk_outbox_entry *)(void *)(outbox->entries + (hk_outbox_hash(block) & outbox->mask));
    return HK_LIKELY((uintptr_t)block - entry->start < entry->bytes) ? entry : NULL;
}

/* Puts a block of the entry's word into the outbox. Returns false if no block begins at `block`, or if the outbox already has it, or has no room. */
HK_INLINE bool hk_outbox_put_fast(struct hk_outbox *outbox, struct hk_outbox_entry *entry, const void *block)
{
    size_t index;
    if (HK_UNLIKELY(!hk_which((uintptr_t)block - entry->start, entry->reciprocal, &index)))
        return false;
    uint64_t bits = entry->bits;
    if (HK_UNLIKELY(!hk_bit_set(&bits, index)) || HK_UNLIKELY((outbox->room -= entry->block_size) < 0))
        return false;
    entry->bits = bits;
    return true;
}

/* Puts a block into the outbox. The thread must not own the block's slab. Returns true if blocks were sent, because there was no room or no table. */
bool hk_outbox_put(struct hk_outbox *outbox, void *block);
/* Sends all waiting blocks to their slabs. Sets and counts the remote bits of these blocks. */
void hk_outbox_send_all(struct hk_outbox *outbox);
/* Both free the table. hk_outbox_drop_idle() does so only if no block was put since its last call. The caller must have sent all blocks. */
void hk_outbox_drop(struct hk_outbox *outbox);
void hk_outbox_drop_idle(struct hk_outbox *outbox);
/* Adapts the size of the table, and the number of bytes that may wait, to the footprint. The table must exist. */
void hk_outbox_tune(struct hk_outbox *outbox, size_t footprint);
/* In a fork child, drops the waiting blocks of a thread that does not exist there. Returns the number of these blocks. */
size_t hk_outbox_forget(struct hk_outbox *outbox);
/* In a fork child, counts the tables of outboxes again, and counts the survivor's marked blocks as sent. Called before the slabs are recounted. */
void hk_outboxes_recount(struct hk_outbox *survivor);
/* In a fork child, enters the waiting blocks of the outbox into the remote track (remote_track.h). Called after the slabs are recounted. */
void hk_outbox_track_again(const struct hk_outbox *survivor);
/* Adds to bytes[class] the bytes of the class's blocks that are waiting, or that are marked but not counted. */
void hk_outbox_count(const struct hk_outbox *outbox, int64_t bytes[HK_CLASSES]);
/* Frees a block of a slab that the calling thread does not hold. `entry` is the block's page map entry. */
void hk_remote_free(void *block, uint32_t entry);
/* Puts a slab into the inbox of its current owner, or drains the slab if it is abandoned. */
void hk_send(struct hk_slab *slab);
