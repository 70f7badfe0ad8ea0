/* The quarantine holds freed blocks back, so that an address is not reused soon. The slots are random, so that an attacker cannot tell how many frees
 * will pass before an address is reused.
 *
 *   A freed block takes a random one of 16 slots. The block that was in the slot joins a queue of 16 blocks. A block that leaves the queue is freed.
 *
 * Owns       The quarantine owns the blocks in it. They are neither live nor in a bin.
 * Threads    Only the cache's own thread uses its quarantine. */
#ifndef HK_QUARANTINE_H
#define HK_QUARANTINE_H

#include "tcache/layout.h"

enum { HK_QUARANTINE_MIXED = 16, HK_QUARANTINE_WAITING = 16, HK_QUARANTINE_HELD = 32 };

struct hk_quarantine {
    uint64_t random;
    unsigned at; /* index in the queue of the block that has waited longest */
    /* The first HK_QUARANTINE_MIXED elements are the random slots. The elements after them are the queue, which is a ring. */
    void *blocks[HK_QUARANTINE_HELD];
};

extern uint64_t hk_quarantine_seed; /* part of the seed of each thread's random numbers; set at the start */

/* Puts a block into the quarantine. Returns the block that leaves the quarantine, which the caller must free, or NULL if no block leaves. */
void *hk_quarantine_swap(struct hk_tcache *cache, void *block);
/* Moves all blocks of the quarantine to their slabs, and frees its memory. */
void hk_quarantine_empty(struct hk_tcache *cache);
/* Leaks the quarantine of a thread that does not exist in the fork child. Returns the number of leaked blocks. */
size_t hk_quarantine_forget(struct hk_tcache *cache);

#endif
