/* Remote: remote frees, as bits of the slab that the blocks lie in. A remote free needs no memory and no lock, and waits for no thread.
 *
 *   freeing thread:   mark: bit 0 -> 1      count: xstate += n, QUEUED?  -- if it was not set: queue the slab (see owner.h, outbox.h)
 *   claiming thread:  take the slab out of the queue      clear QUEUED      bits -> 0      xstate -= n
 *
 * Owns       the remote bits, the state and the queue's link of every slab.
 * Invariant  only the thread that set a bit to 0 has the block. QUEUED is set from the moment when a thread is about to queue the slab
 *            until the thread that took it out clears it. A slab is released only while all its blocks are free in it and its state is
 *            0, because no thread then still has to count a block that was already claimed, or to queue the slab.
 * Threads    mark, count, claim: any. collect: the slab's holder.
 * Never      touches the blocks. */
#ifndef HK_REMOTE_H
#define HK_REMOTE_H

#include "slab/slab.h"

enum { HK_REMOTE_QUEUED = 1, HK_REMOTE_BLOCK = 2, HK_SLAB_MOST_WORDS = 64 };

/* Sets remote bits of one word, which frees these blocks. The slab stays until they are counted. Ends the program if a block was already free. */
void hk_remote_mark(struct hk_slab *slab, unsigned word, uint64_t bits);
/* Counts blocks that the caller has marked. Returns true if the caller must then queue the slab, which is not released until it is queued. */
bool hk_remote_count(struct hk_slab *slab, unsigned blocks);
/* Makes the remote blocks free blocks of the slab. Only the holder calls it, after it took the slab out of a queue. Returns the number of blocks. */
unsigned hk_remote_collect(struct hk_slab *slab);
/* Claims the remote blocks, and sets their bits in `bits`. The caller has taken the slab out of a queue, and does not hold it. Returns the number of
 * blocks. The slab is not released while this is not 0. The caller then queues the slab again, or lets it go if it has claimed blocks. */
unsigned hk_remote_claim(struct hk_slab *slab, uint64_t bits[HK_SLAB_MOST_WORDS]);
/* Clears QUEUED, claims the blocks freed since the claim, and adds them to `bits`. Returns their number. */
unsigned hk_remote_let_go(struct hk_slab *slab, uint64_t bits[HK_SLAB_MOST_WORDS]);

/* Returns true if all blocks are free in the slab, and no thread is about to count or to queue it. */
HK_INLINE bool hk_slab_all_free(struct hk_slab *slab)
{
    return slab->free == slab->d.blocks && hk_load_acquire(slab->xstate) == 0;
}
/* Returns the number of blocks that are counted and not claimed. It is below 0 if some were claimed before they were counted. */
HK_INLINE int hk_remote_blocks(const struct hk_slab *slab)
{
    return ((int32_t)hk_load(slab->xstate) & ~HK_REMOTE_QUEUED) / HK_REMOTE_BLOCK;
}

/* Computes the state of a slab from its bits in a fork child, in which nothing is queued. Returns true if there are remote blocks. They are then
 * counted, and the caller must queue the slab. */
bool hk_remote_restart(struct hk_slab *slab);
/* Like hk_remote_restart(), for a slab whose holder the child does not have. Makes its remote blocks free blocks. Returns true if there were any. */
bool hk_remote_merge(struct hk_slab *slab);
/* Returns the bytes of remote blocks that were purged. */
size_t hk_remote_clean(void);
/* Stores the number of purged bytes of a slab that the caller has taken out of a queue. */
void hk_remote_note_clean(struct hk_slab *slab, size_t bytes);

#endif
