/* Slab heap sweep: walks over an owner's slabs that purge pages without live blocks: by age (sweep), or all of them (trim).
 *
 * Owns       how far the sweep over an owner's lists has come.
 * Invariant  the lock is held for one system call, or a look at a few slabs that need none; then the owner gets its turn.
 * Threads    sweep: the owner or the background thread; trim: any thread where there is a background thread, else the owner. */
#ifndef HK_SLAB_HEAP_SWEEP_H
#define HK_SLAB_HEAP_SWEEP_H

#include "slab/owner.h"
#include "slab/slab_purge.h"

/* Releases slabs of free blocks that were kept for the next miss, and purges the free pages of the others. Returns bytes of pages. */
size_t hk_slab_heap_trim(struct hk_owner *owner);
/* A part of it: one system call. Returns false when the trim is complete, or the owner has no thread any more. */
bool hk_slab_heap_trim_some(struct hk_owner *owner, struct hk_trim *trim);

/* A sweep looks once at each slab that has free blocks, and purges the pages in it that have been free for the purge delay. Begins one
 * unless one is in progress. */
void hk_slab_heap_sweep_begin(struct hk_owner *owner);
/* Begins a sweep that reclaims for growth. One in progress continues as such, and visits all lists once more. */
void hk_slab_heap_sweep_for_growth(struct hk_owner *owner);
/* Continues the sweep as long as the work budget lasts. Returns true when it is complete. */
bool hk_slab_heap_sweep(struct hk_owner *owner, struct hk_sweep *sweep);

#endif
