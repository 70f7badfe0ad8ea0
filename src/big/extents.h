/* Extents: the mappings of big blocks by address: which of them does a range touch? The page map knows only where they begin.
 *
 *   a treap: a search tree by address, and a heap by a hash of it, so that it is some 2 log2 n deep whatever comes when
 *
 * Owns       `child` of the slabs that are in it.
 * Invariant  they do not overlap; `start` does not change while a slab is in it.
 * Threads    the caller holds the big lock. */
#ifndef HK_EXTENTS_H
#define HK_EXTENTS_H

#include "slab/slab.h"

struct hk_extents {
    struct hk_slab *root;
};

void hk_extents_add(struct hk_extents *extents, struct hk_slab *slab);
void hk_extents_remove(struct hk_extents *extents, struct hk_slab *slab);
/* The last that begins below `end`; NULL if there is none. */
struct hk_slab *hk_extents_below(const struct hk_extents *extents, uintptr_t end);

#endif
