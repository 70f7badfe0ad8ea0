/* Remote: blocks that strangers free, as bits of the slab that they lie in. A freer needs no memory for it, no lock, and nobody
 * who is awake.
 *
 *   freer:   mark: bit 0 -> 1      count: xstate += n, QUEUED?  -- if it was not: it queues the slab (see owner.h, outbox.h)
 *   claimer: take the slab out of the queue      clear QUEUED      bits -> 0      xstate -= n
 *
 * Owns       the remote bits, the state and the queue's link of every slab.
 * Invariant  who has set a bit to 0 has the block, and nobody else. QUEUED is set from when somebody is about to queue the slab
 *            until who took it out clears it. A slab is released only while all its blocks are free in it and its state is 0:
 *            then no freer is still to count what was claimed already, or to queue the slab.
 * Threads    mark, count, claim: any. collect: the slab's holder.
 * Never      touches the blocks. */
#ifndef HK_REMOTE_H
#define HK_REMOTE_H

#include "slab/slab.h"

enum { HK_REMOTE_QUEUED = 1, HK_REMOTE_BLOCK = 2, HK_SLAB_MOST_WORDS = 64 };

/* Blocks of one word of the slab are free from now on. The slab stays until they are counted. Fatal if one was free already. */
void hk_remote_mark(struct hk_slab *slab, unsigned word, uint64_t bits);
/* What the caller has marked. True if the caller has to queue the slab, which stays until it has. */
bool hk_remote_count(struct hk_slab *slab, unsigned blocks);

/* For who has taken the slab out of a queue, and holds it: its remote blocks become free blocks of the slab. Their number. */
unsigned hk_remote_collect(struct hk_slab *slab);

/* For who has taken it out of a queue and does not hold it: its remote blocks are the caller's, as bits. Their number. While it is
 * not 0 the slab stays. It is still to be queued again, or, if there were any, to be let go of. */
unsigned hk_remote_claim(struct hk_slab *slab, uint64_t bits[HK_SLAB_MOST_WORDS]);
/* Not queued any more. What was freed in the last moment is the caller's too: more bits, and their number. */
unsigned hk_remote_let_go(struct hk_slab *slab, uint64_t bits[HK_SLAB_MOST_WORDS]);

/* All its blocks are free in it, and nobody is about to touch it. */
HK_INLINE bool hk_slab_all_free(struct hk_slab *slab)
{
    return slab->free == slab->d.blocks && hk_load_acquire(slab->xstate) == 0;
}

/* Blocks that are counted and not claimed; below 0 where some were claimed before they are counted. */
HK_INLINE int hk_remote_blocks(const struct hk_slab *slab)
{
    return ((int32_t)hk_load(slab->xstate) & ~HK_REMOTE_QUEUED) / HK_REMOTE_BLOCK;
}

/* In a fork child nothing is queued, and nobody counts. The bits are believed. True, and counted and marked as queued, if there
 * are any. */
bool hk_remote_restart(struct hk_slab *slab);
/* The same where the holder was cut off: they become free blocks. True if there were any. */
bool hk_remote_merge(struct hk_slab *slab);

/* Bytes of remote blocks that went back to the system. */
size_t hk_remote_clean(void);
/* By who has the slab out of a queue: so many did. */
void hk_remote_note_clean(struct hk_slab *slab, size_t bytes);

#endif
