/* Registry: slabs without a thread: left behind by threads that ended, or cut for threads that have no cache; and commons, from
 * which new threads take their first blocks where there are many: one that does little has no slabs of its own.
 *
 * Owns       the handle of every slab whose page map entry says HK_ORPHAN; per class a list of those with free blocks, and one of commons.
 * Invariant  an orphan slab is listed exactly while it has free blocks. A common is adopted only where few threads are left.
 * Threads    any; one lock per class is the handle of all its orphans. */
#ifndef HK_ORPHANS_H
#define HK_ORPHANS_H

#include "slab/owner.h"
#include "slab/slab.h"
#include "slab/slab_purge.h"


/* The caller holds the slab and lets go of it. Wholly free slabs are released. */
void hk_orphans_abandon(struct hk_slab *slab);

/* An orphan of the class with free blocks, which is now the owner's; NULL if there is none. */
struct hk_slab *hk_orphans_adopt(unsigned class, struct hk_owner *owner);

/* Makes the orphan that holds `block` the owner's; NULL if it is no orphan (any more). */
struct hk_slab *hk_orphans_claim(void *block, unsigned class, struct hk_owner *owner);

/* Frees a block of an orphan in place; false if its slab is no orphan (any more). */
bool hk_orphans_free(void *block, unsigned class);

/* Takes what strangers freed in a slab that is to be queued; false if it is no orphan (any more). */
bool hk_orphans_collect(struct hk_slab *slab);
/* Moves at most n >= 1 blocks out of commons; they end at `end`. How many: 0 if the system refuses. */
unsigned hk_orphans_take_common(unsigned class, void **end, unsigned n);
/* Is the orphan that holds `block` one? The block is not free. */
HK_INLINE bool hk_orphans_is_common(const void *block) { return hk_load(hk_slab_at((uintptr_t)block)->xcommon); }
/* Are there many threads, so that commons stay what they are? */
void hk_orphans_crowd(bool crowded);

/* Are there orphans of the class with free blocks? A glance. */
bool hk_orphans_has(unsigned class);

/* A block for a thread that has no cache; NULL if the system refuses. */
void *hk_orphans_alloc(unsigned class);

/* Gives back pages of orphans that have been free for the purge delay, as long as the work budget lasts; goes on where it stopped.
 * True when it has come to the end. */
bool hk_orphans_sweep(struct hk_sweep *sweep);
/* Gives back all free pages of orphans. Bytes. */
size_t hk_orphans_purge(void);

/* Before fork takes the locks: they are there. */
void hk_orphans_fork_prepare(void);
/* In a fork child: makes orphans of the slabs of threads that it does not have: those not owned by `survivor`, which may be NULL.
 * What strangers freed goes into the slabs; the survivor's are queued. */
void hk_orphans_orphan_rest(struct hk_owner *survivor);

#endif
