/* Idle inboxes: purges the remote frees that wait for owners that do not drain, by the background thread or another one that passes.
 *
 *   inbox -> take a slab out -> claim its remote blocks -> purge the whole pages among them -> make the blocks remote again -> inbox
 *
 * Owns       the order in which inboxes are visited, and the fields of a slab that say what a visit found.
 * Invariant  a page is purged only while the purging thread has claimed all blocks on it. No lock is held meanwhile: claimed blocks
 *            keep the slab from being released.
 * Threads    any. The slab's holder may allocate and free its other blocks at the same time.
 * Never      writes into the pages. */
#ifndef HK_IDLE_INBOXES_H
#define HK_IDLE_INBOXES_H

#include "slab/owner.h"
#include "slab/slab_purge.h"

/* Purges remote frees that have waited in inboxes for the purge delay, as long as the work budget lasts. The next call continues there.
 * Returns true at the end of all owners. */
bool hk_idle_inboxes_sweep(struct hk_sweep *sweep);

/* Purges the remote frees of all inboxes at once. */
void hk_idle_inboxes_purge(void);

#endif
