/* Extents: the mappings of large blocks by address, to find those that a range touches. The page map knows only their first slices.
 *
 *   a treap: a search tree by address and a heap by a hash of it, some 2 log2 n deep in any order of insertion
 *
 * Owns       `child` of the large blocks in it.
 * Invariant  the mappings do not overlap; `start` does not change while a block is in it.
 * Threads    the holder of the large lock. */
#ifndef HK_EXTENTS_H
#define HK_EXTENTS_H

#include "large/large_block.h"

struct hk_extents {
    struct hk_large_block *root;
};

void hk_extents_add(struct hk_extents *extents, struct hk_large_block *large);
void hk_extents_remove(struct hk_extents *extents, struct hk_large_block *large);
/* The last block that begins below `end`; NULL if there is none. */
struct hk_large_block *hk_extents_below(const struct hk_extents *extents, uintptr_t end);
/* The first block that begins at `start` or above; NULL if there is none. */
struct hk_large_block *hk_extents_from(const struct hk_extents *extents, uintptr_t start);

#endif
