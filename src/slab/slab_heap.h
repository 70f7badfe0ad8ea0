/* Slab heap: an owner's slabs by class, and the blocks of up to 1 MiB that move between them and its bins in batches.
 *
 *   miss:     own partial slab -> adopted abandoned slab -> joined blocks -> new slab         flush: bitmap; a slab of free blocks is released
 *
 * Owns       the order in which an owner's slabs are used, and when a slab is released.
 * Invariant  a slab on a list is on `partial` exactly while it has free blocks, else on `full`.
 * Threads    the owner, under its slab_lists_lock where there is a background thread (see owner.h). */
#ifndef HK_SLAB_HEAP_H
#define HK_SLAB_HEAP_H

#include "slab/owner.h"

/* Allocates up to `want` >= 1 blocks, written downwards from `end`, the lowest address last. Returns their number: 0 if the system refuses memory. */
unsigned hk_slab_heap_alloc(struct hk_owner *owner, unsigned class, void **end, unsigned want);
/* The same from slabs of the class alone, without adopting and joining. */
unsigned hk_slab_heap_take_own(struct hk_owner *owner, unsigned class, void **end, unsigned want);
/* Frees blocks up to the first whose slab is not the owner's. Returns their number. */
unsigned hk_slab_heap_free(struct hk_owner *owner, void *const *blocks, unsigned n);
/* Drains a slab of the owner's inbox; one that has another holder by now is sent on. Returns blocks. */
unsigned hk_slab_heap_collect(struct hk_owner *owner, struct hk_slab *slab);

/* Written at the start. False: blocks are not joined in slabs of smaller classes. */
extern bool hk_slab_heap_joins;

bool hk_slab_heap_has_partial(struct hk_owner *owner, unsigned class);
/* Adds a slab that the owner has just claimed. */
void hk_slab_heap_enter(struct hk_owner *owner, struct hk_slab *slab);
/* Abandons all slabs, because the owner ends. */
void hk_slab_heap_abandon(struct hk_owner *owner);
/* Makes a slab of one block longer or shorter in place; false if that cannot be. */
bool hk_slab_heap_resize(struct hk_owner *owner, struct hk_slab *slab, size_t size);

/* The owner's next slab with free blocks; NULL if there is none. Under the lock. */
HK_INLINE struct hk_slab *hk_slab_heap_partial(struct hk_owner *owner, unsigned class)
{
    return hk_slab_of_link(hk_list_first(&owner->slab_lists[class].partial));
}
/* Releases a slab whose blocks are all free. Under the lock. */
HK_ROOM void hk_slab_heap_release(struct hk_owner *owner, struct hk_slab *slab);

#endif
