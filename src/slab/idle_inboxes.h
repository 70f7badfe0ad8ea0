/* Sleepers: what strangers freed for owners that do not look: its pages go back to the system, by whoever passes.
 *
 *   inbox -> take a slab out -> claim its remote blocks: they are mine -> whole pages among them go -> the blocks are remote again -> inbox
 *
 * Owns       the order in which inboxes are looked at, and what is noted of a slab that was.
 * Invariant  a page goes only while all blocks on it are claimed by who gives it back. No lock is held meanwhile: the claimed blocks
 *            keep the slab where it is.
 * Threads    any. The slab's holder may take and give its other blocks at the same time.
 * Never      writes into the pages. */
#ifndef HK_IDLE_INBOXES_H
#define HK_IDLE_INBOXES_H

#include "slab/owner.h"
#include "slab/slab_purge.h"

/* What has lain in inboxes for the purge delay, as long as the work budget lasts; goes on where it stopped. True when it has come to the
 * end. */
bool hk_idle_inboxes_sweep(struct hk_sweep *sweep);

/* All that lies in any inbox, now. */
void hk_idle_inboxes_purge(void);

#endif
