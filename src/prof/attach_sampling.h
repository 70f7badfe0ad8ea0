/* Attach sampling: samples the allocations of a process that began without hooks. While a process is sampled, the gate is shut, so that each allocation
 * is a miss. The bins count all blocks then. Nearly all allocations are still served from the bins, and frees remain hits.
 *
 *   blocks over HK_FINE_MAX: each allocation counts down to the next sample
 *   smaller blocks:          count down in rounds only. Each tick of the learner (every 150 ms) begins a round. A round ends after 64 samples, 32768
 *                            calls or 5 ms.
 *   a picked block lies in a user heap that belongs to HAKMEM, or is a large block, so that its free is never a hit
 *
 * Owns       This file owns the round, and the counts of served blocks that the last tick has read. If a round took 10 samples of a class that served
 *            1,000 blocks since the last tick, each sample stands for 100 blocks.
 * Invariant  Before sampling begins, this file costs nothing, because the hooks are off and the gate is open.
 * Threads    The caller of begin, end and tick holds the learner's lock. Any thread may call the other functions. */
#pragma once

#include "tcache/layout.h"

struct hk_attach_sampling {
    _Atomic bool xon;
    _Atomic bool xround;             /* a round has begun, and all allocations count down */
    _Atomic uint64_t xends_ns;       /* time at which the round ends */
    _Atomic uint32_t xcalls, xpicks; /* numbers of calls and of picks that are left in the round */
    _Atomic uint64_t xmean, xfine_mean, xrounds;
    _Atomic uint64_t xserved[HK_CLASSES]; /* blocks served since sampling began; counted for fine classes only */
    /* Subtracted from the counts of the bins. An allocation in a user heap lowers it by 1. */
    _Atomic uint64_t xserved_before[HK_CLASSES];
    /* The user heap of the picked blocks, or NULL before the first attach. No thread has a cache of this heap. */
    _Atomic(struct hak_heap *) xheap;
};
extern struct hk_attach_sampling hk_attach_sampling;

/* Begins to sample, and shuts the caches of user heaps, or changes the mean. Returns false if memory is refused. Precondition: the guard and the options let calls be hits. */
bool hk_attach_sampling_begin(uint64_t mean);
/* Stops picking blocks. Samples of blocks that were picked before stay in the tables until these blocks are freed, but
 * hk_hooks_unwatch() removes those of user heaps. */
void hk_attach_sampling_end(void);
/* Updates the counts of served blocks. Begins the next round, unless sampling has ended. Each tick after the first attach calls this function. */
void hk_attach_sampling_tick(void);
/* Returns true if an allocation that misses must be sampled. Precondition: the thread has a tcache. */
bool hk_attach_sampling_picks(struct hk_tcache *cache, size_t size);
/* Returns a block from the heap of the picked blocks. Returns NULL if memory is refused, or if the alignment needs a medium or large block. */
void *hk_attach_sampling_alloc(size_t size, size_t align);
/* Returns true if the page map entry is that of a block of at most HK_FINE_MAX bytes that attach sampling has picked. */
HK_INLINE bool hk_attach_sampling_has(uint32_t entry)
{
    const struct hak_heap *heap = hk_load_acquire(hk_attach_sampling.xheap);
    return heap != NULL && hk_entry_owner(entry) == HK_FIRST_HEAP + heap->index;
}
