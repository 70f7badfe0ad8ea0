/* Idle: purges pages without live blocks: those of an owner's slabs, by age (sweep) or all of them (trim), and those of the remote frees that
 * wait for owners that do not drain, by the background thread or another one that passes:
 *
 *   inbox -> take a slab out -> claim its remote blocks -> purge the whole pages among them -> make the blocks remote again -> inbox
 *
 * Owns       how far the sweep over an owner's lists has come, the order in which inboxes are visited, and the fields of a slab that say
 *            what a visit found.
 * Invariant  an owner's lock is held for one system call, or a look at a few slabs that need none; then the owner gets its turn. A page of
 *            remote frees is purged only while the purging thread has claimed all blocks on it. No lock is held during that purge: claimed
 *            blocks keep the slab from being released.
 * Threads    sweep: the owner or the background thread; trim: any thread where there is a background thread, else the owner; inboxes: any.
 *            The slab's holder may allocate and free its other blocks at the same time.
 * Never      writes into the pages. */
#ifndef HK_IDLE_H
#define HK_IDLE_H

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
/* Purges remote frees that have waited in inboxes for the purge delay, as long as the work budget lasts. The next call continues there.
 * Returns true at the end of all owners. */
bool hk_idle_inboxes_sweep(struct hk_sweep *sweep);
/* Purges the remote frees of all inboxes at once. */
void hk_idle_inboxes_purge(void);

#endif
