/* Blocks: Tiny, Mid and Large: blocks that are cut from slabs, moved in batches between an owner's slabs and its bins.
 *
 *   miss:     own partial slab -> adopted orphan -> new slab         overflow: bitmap; a slab that is all free goes back
 *
 * Owns       the order in which an owner's slabs are used, and when one is given back, whole or some of its pages.
 * Invariant  a slab on a list is on `partial` exactly while it has free blocks, else on `full`.
 * Threads    the owner; sweep and trim: the background thread too, and who trims for all, where there is one. */
#ifndef HK_SLAB_HEAP_H
#define HK_SLAB_HEAP_H

#include "slab/owner.h"
#include "slab/slab_purge.h"

/* Up to `want` >= 1 blocks, written downwards from `end`, the lowest address last. Their number: 0 if memory is refused. */
unsigned hk_slab_heap_alloc(struct hk_owner *owner, unsigned class, void **end, unsigned want);

/* The same from slabs of the class alone. */
unsigned hk_slab_heap_take_own(struct hk_owner *owner, unsigned class, void **end, unsigned want);

/* Gives blocks back, up to the first that is not the owner's. Their number. */
unsigned hk_slab_heap_free(struct hk_owner *owner, void *const *blocks, unsigned n);

/* Takes into a slab what strangers freed in it; one from the owner's inbox that is somebody else's by now is sent on. Blocks. */
unsigned hk_slab_heap_collect(struct hk_owner *owner, struct hk_slab *slab);

bool hk_slab_heap_has_partial(struct hk_owner *owner, unsigned class);

/* Enters a slab that the owner has just claimed. */
void hk_slab_heap_enter(struct hk_owner *owner, struct hk_slab *slab);

/* Gives back slabs that are all free and were kept for the next miss, and the free pages of the others. Bytes of pages. */
size_t hk_slab_heap_trim(struct hk_owner *owner);
/* The same by and by, one system call at a time. False when it is over, or the owner has no thread any more. */
bool hk_slab_heap_trim_some(struct hk_owner *owner, struct hk_trim *trim);

/* A sweep looks at each slab with free blocks once, and gives back the pages in it that have been free for the purge delay.
 * Begins one, if none is under way. */
void hk_slab_heap_sweep_begin(struct hk_owner *owner);
/* Begins one that reclaims for growth; one that is under way goes on as such, and all around once more. */
void hk_slab_heap_sweep_for_growth(struct hk_owner *owner);
/* Goes on with it as long as the work budget lasts. True when it is over. */
bool hk_slab_heap_sweep(struct hk_owner *owner, struct hk_sweep *sweep);

/* Lets go of all slabs: the owner ends. */
void hk_slab_heap_abandon(struct hk_owner *owner);

/* Large: makes the block's slab longer or shorter where it is; false if that cannot be. */
bool hk_slab_heap_resize(struct hk_owner *owner, struct hk_slab *slab, size_t size);

#endif
