/* A remote free is a free by a thread that does not hold the slab. It sets the block's remote bit, needs no memory and no lock, and does not wait.
 *
 *   freeing thread:   marks the block (remote bit 0 -> 1), then counts it (xstate += n) and sets QUEUED; if QUEUED was clear, queues the slab
 *   claiming thread:  takes the slab out of the queue (owner.h), clears QUEUED, claims the block (remote bit -> 0), then uncounts it (xstate -= n)
 *
 * Owns       This file owns the remote bits, the state and the inbox link of every slab.
 * Invariant  The thread that clears a remote bit has the block from then on. A thread sets QUEUED when it is about to queue the slab. The thread
 *            that takes the slab out of the queue clears QUEUED. A slab is released only if all its blocks are free in it and its state is 0. A
 *            state of 0 means that no thread still has to count a block or to queue the slab.
 * Threads    Any thread may mark, count and claim blocks. Only the slab's holder collects them.
 * Never      No function touches the memory of the blocks. */
#pragma once

#include "slab/slab.h"

enum { HK_REMOTE_QUEUED = 1, HK_REMOTE_BLOCK = 2, HK_SLAB_MOST_WORDS = 64 };

/* Marks blocks of one bitmap word as remote. Ends the program if one is remote already. The slab is not released before the blocks are counted. */
void hk_remote_mark(struct hk_slab *slab, unsigned word, uint64_t bits);
/* Counts blocks that the caller has marked. Returns true if the caller must then queue the slab. The slab is not released before it is queued. */
bool hk_remote_count(struct hk_slab *slab, unsigned blocks);
/* Claims the remote blocks and frees them in the slab. The caller holds the slab, and has taken it out of a queue. Returns the number of blocks. */
unsigned hk_remote_collect(struct hk_slab *slab);
/* Claims the remote blocks, and adds their bits to `bits`. The caller does not hold the slab, but has taken it out of a queue. Returns the number
 * of added blocks. The slab is not released while the caller has claimed blocks. Later, the caller queues the slab or calls hk_remote_let_go(). */
unsigned hk_remote_claim(struct hk_slab *slab, uint64_t bits[HK_SLAB_MOST_WORDS]);
/* Clears QUEUED, and claims the blocks that were freed since hk_remote_claim(). */
unsigned hk_remote_let_go(struct hk_slab *slab, uint64_t bits[HK_SLAB_MOST_WORDS]);
/* Makes claimed blocks remote again. Returns true if the caller must then queue the slab. */
bool hk_remote_put_back(struct hk_slab *slab, const uint64_t bits[HK_SLAB_MOST_WORDS]);

/* Returns true if all blocks are free in the slab, and no thread is about to count blocks or to queue the slab. */
HK_INLINE bool hk_slab_all_free(struct hk_slab *slab)
{
    return slab->free == slab->d.blocks && hk_load_acquire(slab->xstate) == 0;
}
/* Returns the number of remote blocks that xstate counts. It may be negative, because a block may be claimed before its freeing thread counts it. */
HK_INLINE int hk_remote_blocks(const struct hk_slab *slab)
{
    return ((int32_t)hk_load(slab->xstate) & ~HK_REMOTE_QUEUED) / HK_REMOTE_BLOCK;
}

/* In a fork child, whose inboxes are empty, computes the slab's state from its remote bits. Returns true if the caller must then queue the slab. */
bool hk_remote_restart(struct hk_slab *slab);
/* In a fork child that lacks the slab's holder, frees the remote blocks and computes the slab's state. Returns true if there were remote blocks. */
bool hk_remote_merge(struct hk_slab *slab);
/* Returns the purged bytes of the remote blocks of all slabs. */
size_t hk_remote_clean(void);
/* Stores how many bytes of the slab's remote blocks are purged. The caller has taken the slab out of a queue. */
void hk_remote_note_clean(struct hk_slab *slab, size_t bytes);
