/* Remote: remote frees, as bits of the slab that the blocks lie in. A remote free needs no memory and no lock, and waits for no thread.
 *
 *   freeing thread:   mark: bit 0 -> 1      count: xstate += n, QUEUED?  -- if it was not set: queue the slab (see owner.h, outbox.h)
 *   claiming thread:  take the slab out of the queue      clear QUEUED      bits -> 0      xstate -= n
 *
 * Owns       the remote bits, the state and the queue's link of every slab.
 * Invariant  only the thread that set a bit to 0 has the block. QUEUED is set from the moment when a thread is about to queue the slab
 *            until the thread that took it out clears it. A slab is released only while all its blocks are free in it and its state is
 *            0: then no thread is still to count a block that was claimed already, or to queue the slab.
 * Threads    mark, count, claim: any. collect: the slab's holder.
 * Never      touches the blocks. */
#ifndef HK_REMOTE_H
#define HK_REMOTE_H

#include "slab/slab.h"

enum { HK_REMOTE_QUEUED = 1, HK_REMOTE_BLOCK = 2, HK_SLAB_MOST_WORDS = 64 };

/* Frees blocks of one word. The slab is not released until they are counted. Fatal if one was free already. */
void hk_remote_mark(struct hk_slab *slab, unsigned word, uint64_t bits);
/* Counts blocks that the caller has marked. Returns true if the caller has to queue the slab, which is not released until then. */
bool hk_remote_count(struct hk_slab *slab, unsigned blocks);
/* For the holder, which has taken the slab out of a queue: makes the remote blocks free blocks of the slab. Returns their number. */
unsigned hk_remote_collect(struct hk_slab *slab);
/* For a thread that has taken the slab out of a queue and does not hold it: claims the remote blocks, as bits. Returns their number.
 * While it is not 0 the slab is not released. The caller queues the slab again or, if it has claimed blocks, lets it go. */
unsigned hk_remote_claim(struct hk_slab *slab, uint64_t bits[HK_SLAB_MOST_WORDS]);
/* Clears QUEUED, and claims the blocks freed meanwhile: more bits. Returns their number. */
unsigned hk_remote_let_go(struct hk_slab *slab, uint64_t bits[HK_SLAB_MOST_WORDS]);

/* True where all blocks are free in the slab, and no thread is about to count or to queue it. */
HK_INLINE bool hk_slab_all_free(struct hk_slab *slab)
{
    return slab->free == slab->d.blocks && hk_load_acquire(slab->xstate) == 0;
}
/* Blocks counted and not claimed; below 0 where some were claimed before they were counted. */
HK_INLINE int hk_remote_blocks(const struct hk_slab *slab)
{
    return ((int32_t)hk_load(slab->xstate) & ~HK_REMOTE_QUEUED) / HK_REMOTE_BLOCK;
}

/* In a fork child nothing is queued, and the state is made anew from the bits. Returns true if there are remote blocks: they are counted,
 * and the caller queues the slab. */
bool hk_remote_restart(struct hk_slab *slab);
/* The same for a slab whose holder the child does not have: remote blocks become free blocks. Returns true if there were any. */
bool hk_remote_merge(struct hk_slab *slab);
/* Bytes of remote blocks that were purged. */
size_t hk_remote_clean(void);
/* Notes the purged bytes of a slab that the caller has taken out of a queue. */
void hk_remote_note_clean(struct hk_slab *slab, size_t bytes);

#endif
