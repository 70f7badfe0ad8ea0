/* Registry: slabs without a thread: left behind by threads that ended, or cut for threads that have no cache.
 *
 * Owns       the handle of every slab whose route says HK_ORPHAN; per class a list of those with free blocks.
 * Invariant  an orphan slab is listed exactly while it has free blocks.
 * Threads    any; one lock per class is the handle of all its orphans. */
#ifndef HK_REGISTRY_H
#define HK_REGISTRY_H

#include "slab/owner.h"
#include "slab/pages.h"
#include "slab/slab.h"

void hk_registry_init(void);

/* The caller holds the slab and lets go of it. Wholly free slabs are released. */
void hk_registry_abandon(struct hk_slab *slab);

/* An orphan of the class with free blocks, which is now the owner's; NULL if there is none. */
struct hk_slab *hk_registry_adopt(unsigned class, struct hk_owner *owner);

/* Makes the orphan that holds `block` the owner's; NULL if it is no orphan (any more). */
struct hk_slab *hk_registry_claim(void *block, unsigned class, struct hk_owner *owner);

/* Frees a block of an orphan in place; false if its slab is no orphan (any more). */
bool hk_registry_free(void *block, unsigned class);

/* Are there orphans of the class with free blocks? A glance. */
bool hk_registry_has(unsigned class);

/* A block for a thread that has no cache; NULL if the system refuses. */
void *hk_registry_alloc(unsigned class);

/* Gives back pages of orphans that have been free for the purge delay, as long as the effort lasts; goes on where it stopped.
 * True when it has come to the end. */
bool hk_registry_sweep(struct hk_sweep *sweep);
/* Gives back all free pages of orphans. Bytes. */
size_t hk_registry_purge(void);

void hk_registry_fork_prepare(void);
void hk_registry_fork_parent(void);
void hk_registry_fork_child(void);
/* In a fork child: makes orphans of the slabs of threads that it does not have: those not owned by `survivor`. */
void hk_registry_orphan_rest(uint32_t survivor);

#endif
