/* Big mapping: how a big block is mapped, remapped, put on huge pages and unmapped.
 * Owns     `start`, `bytes` and `huge` of the descriptors; which blocks stand on huge pages.
 * Threads  whoever took the descriptor out of the lists; `_locked`: the holder of the big lock. */
#ifndef HK_BIG_MAPPING_H
#define HK_BIG_MAPPING_H

#include "big/big_state.h"

/* The bytes to map for a block: whole huge pages where that adds little, and the block would stand on them. */
HK_ROOM size_t hk_big_in_whole_huge_pages(size_t bytes);
/* A mapping whose first slice the page map covers; NULL where the limit or the system refuses. */
HK_ROOM void *hk_big_map(size_t bytes, size_t align);
/* The descriptor describes this mapping from now on. */
HK_ROOM void hk_big_enter(struct hk_slab *slab, uintptr_t start, size_t bytes);
/* Asks for huge pages, once for the block: a mapping keeps the advice when it is remapped. */
HK_ROOM void hk_big_advise(struct hk_slab *slab);
/* In place, else moved without copying. False where the limit or the system refuses: the mapping is as it was. */
HK_ROOM bool hk_big_lengthen(struct hk_slab *slab, size_t bytes);
HK_ROOM bool hk_big_remap_in_place(struct hk_slab *slab, size_t bytes);
/* Enters the mapping among those that can be found by address. */
HK_ROOM void hk_big_index_locked(struct hk_slab *slab);
/* The page map entry goes before the mapping. False where the system refuses: the block stays cached, without its pages. */
HK_ROOM bool hk_big_unmap(struct hk_slab *slab);

#endif
