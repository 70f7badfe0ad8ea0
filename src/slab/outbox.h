/* Outbox: blocks on their way to their owners, collected per owner and class, out of band: the freer touches neither the
 * block nor the owner's lines until a parcel is full.
 * Owns       one parcel being filled per slot; a slot is found by the block's route.
 * Invariant  a slot holds at most HK_PARCEL_BLOCKS blocks and at most about 64 KiB of them.
 * Threads    the outbox: its thread only. */
#ifndef HK_OUTBOX_H
#define HK_OUTBOX_H

#include "slab/owner.h"

enum { HK_OUTBOX_SLOTS = 64 };

struct hk_outbox {
    struct hk_outbox_slot {
        uint32_t route;
        struct hk_parcel *parcel;
    } slots[HK_OUTBOX_SLOTS];
    uint64_t filled; /* bit s: slot s holds a parcel */
};

/* Takes a block of a slab whose route says another live owner. */
void hk_outbox_put(struct hk_outbox *outbox, uint32_t route, void *block);
/* Sends all that is waiting. */
void hk_outbox_post_all(struct hk_outbox *outbox);
/* Drops what waits without sending it: in a fork child, for threads it does not have. */
size_t hk_outbox_forget(struct hk_outbox *outbox);
/* Bytes of blocks that wait. */
size_t hk_outbox_bytes(const struct hk_outbox *outbox);

/* Gives back a block of which only the address is known, whoever holds it now: for what was refused or forwarded. */
void hk_deliver(void *block);

#endif
