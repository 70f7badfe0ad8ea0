/* A slab heap is all slabs of one owner, by class. Blocks of up to 1 MiB move in batches between these slabs and the bins of the owner's thread.
 *
 *   miss: takes blocks of a partial slab, adopts or takes over a slab, joins blocks, or makes a slab     flush: frees blocks and free slabs
 *
 * Owns       These functions decide which of an owner's slabs is used next, and when a slab is released.
 * Invariant  A listed slab is on `partial` while it has free blocks, and on `full` while it has none.
 * Threads    The owner calls these functions. If there is a background thread, the lists are used under slab_lists_lock (see owner.h). */
#pragma once

#include "slab/owner.h"

/* Allocates up to `want` >= 1 blocks, and stores them before `end` like hk_slab_alloc(). Returns the number of blocks, or 0 if memory is refused. */
unsigned hk_slab_heap_alloc(struct hk_owner *owner, unsigned class, void **end, unsigned want);
/* Allocates like hk_slab_heap_alloc(), but only from the owner's slabs of this class or a new slab. Does not adopt slabs or join blocks. */
unsigned hk_slab_heap_take_own(struct hk_owner *owner, unsigned class, void **end, unsigned want);
/* Frees blocks, and stops before the first block of a slab that is not the owner's. Returns the number of freed blocks. */
unsigned hk_slab_heap_free(struct hk_owner *owner, void *const *blocks, unsigned n);
/* Drains a slab from the owner's inbox, or sends the slab on if it has another holder by now. Returns the number of drained blocks. */
unsigned hk_slab_heap_collect(struct hk_owner *owner, struct hk_slab *slab);
/* Makes `owner` the holder of a slab that the caller has taken out of another owner's inbox. Works only if the slab's holder does not use the class, or
 * has not read the clock for HK_TICK_MS. The caller then drains the slab. Returns false if the slab keeps its holder. */
bool hk_slab_heap_take_queued(struct hk_owner *owner, struct hk_slab *slab);
/* Takes a block out of the owner's next slab if it helps to move a block of `slab` there. It helps if `slab` is sparse, and the next slab is another
 * one that is at least as full. Then `slab` goes to the end of the list. Otherwise returns 0, and `slab` becomes the next slab if the owner can
 * allocate from it, so that the fullest slabs are filled first. Reads the count of another owner's slab without a lock, so it may be outdated. */
unsigned hk_slab_heap_take_fuller(struct hk_owner *owner, unsigned class, struct hk_slab *slab, void **end);

extern bool hk_slab_heap_joins; /* if false, blocks are never joined; set when HAKMEM starts */

/* Adds a slab to the lists of the owner, which has just adopted the slab. */
void hk_slab_heap_enter(struct hk_owner *owner, struct hk_slab *slab);
void hk_slab_heap_abandon(struct hk_owner *owner);
/* Changes the size of a slab of one block without moving the block. Returns false if this is not possible. */
bool hk_slab_heap_resize(struct hk_owner *owner, struct hk_slab *slab, size_t size);

/* Returns true if the owner has a slab of the class with free blocks. Takes no lock, so the result may be outdated. */
HK_INLINE bool hk_slab_heap_has_partial(struct hk_owner *owner, unsigned class)
{
    return !hk_list_looks_empty(&owner->slab_lists[class].partial);
}
/* Returns the slab from which the owner allocates blocks of the class next, or NULL if no slab has free blocks. The caller holds the lists' lock. */
HK_INLINE struct hk_slab *hk_slab_heap_partial(struct hk_owner *owner, unsigned class)
{
    return hk_slab_of_link(hk_list_first(&owner->slab_lists[class].partial));
}
/* Returns true if there is a next slab (hk_slab_heap_partial()), and none of its blocks was allocated or freed since a sweep looked at this slab. */
HK_INLINE bool hk_slab_heap_is_unused(struct hk_owner *owner, unsigned class)
{
    const struct hk_slab *slab = hk_slab_heap_partial(owner, class);
    return slab != NULL && slab->pages > HK_PAGES_FREED;
}
/* Releases a slab whose blocks are all free. The caller holds the lock of the lists. */
HK_ROOM void hk_slab_heap_release(struct hk_owner *owner, struct hk_slab *slab);

/* These functions purge pages without live blocks (idle.c). A trim releases the free slabs of an owner, and purges all free pages of the others. A
 * sweep purges only those pages that have been free for a while. If an owner does not drain its remote frees, their pages are purged in these steps:
 *
 *   inbox -> take a slab out -> claim its remote blocks -> purge the whole pages among them -> make the blocks remote again -> inbox
 *
 * The lock of the lists is held for one system call, or for a look at a few slabs. Then a waiting owner gets this lock. A page of remote frees is
 * purged only while the purging thread has claimed all blocks on it. The purge needs no lock, because a slab with claimed blocks is not released.
 * The slab's holder may allocate and free other blocks of the slab at the same time. Sweeps run in the owner or in the background thread. Trims
 * run in the owner, or in any thread if there is a background thread. */

/* Does a part of a trim, with at most one system call. Returns false if the trim is complete, or if the owner's thread has ended. */
bool hk_slab_heap_trim_some(struct hk_owner *owner, struct hk_trim *trim);
/* Begins a sweep if none is in progress. A sweep visits each slab with free blocks once. If `why` is not HK_SWEEP_AGED, a sweep in progress becomes a
 * sweep of that kind, and visits all lists once more. */
void hk_slab_heap_sweep_begin(struct hk_owner *owner, enum hk_sweep_why why);
/* Continues the sweep as long as the work budget lasts. Returns true when the sweep is complete. */
bool hk_slab_heap_sweep(struct hk_owner *owner, struct hk_sweep *sweep);
/* Purges remote frees that have waited in inboxes for the purge delay. If the work budget ends, returns false, and the next call continues. */
bool hk_idle_inboxes_sweep(struct hk_sweep *sweep);
/* Purges all remote frees in inboxes, no matter how long they have waited. */
void hk_idle_inboxes_purge(void);
