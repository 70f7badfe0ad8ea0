/* The quarantine holds freed blocks back, so that an address is not reused soon. The slots are random, so that nobody
 * can tell how many frees will pass before an address is reused.
 *
 *   freed block -> a random slot of `mixed`; the block that was in the slot -> `waiting`, first in first out -> the block that leaves is freed
 *
 * Owns       The quarantine owns the blocks in it. They are neither live nor in a bin.
 * Threads    Only the cache's own thread uses its quarantine. */
#ifndef HK_QUARANTINE_H
#define HK_QUARANTINE_H

#include "tcache/layout.h"

enum { HK_QUARANTINE_MIXED = 16, HK_QUARANTINE_WAITING = 16, HK_QUARANTINE_HELD = 32 };

struct hk_quarantine {
    uint64_t random;
    unsigned at; /* index of the block that has waited longest */
    /* The first HK_QUARANTINE_MIXED blocks leave at random. The blocks after them leave in turn. */
    void *blocks[HK_QUARANTINE_HELD];
};

extern uint64_t hk_quarantine_seed; /* the seed of the random numbers, set at the start */

/* Puts the block into quarantine. Returns the block that leaves the quarantine, which the caller must free, or NULL if no block leaves. */
void *hk_quarantine_swap(struct hk_tcache *cache, void *block);
/* Moves all blocks of the quarantine to their slabs, and frees its memory. */
void hk_quarantine_empty(struct hk_tcache *cache);
/* Forgets the quarantine of a thread that does not exist in the fork child. Returns the number of lost blocks. */
size_t hk_quarantine_forget(struct hk_tcache *cache);

#endif
