/* Large mapping: how a large block is mapped, remapped, put on huge pages and unmapped.
 * Owns     `d` and `huge` of large blocks; the number of blocks on huge pages.
 * Threads  the thread that took the block out of the lists; `_locked`: the holder of the large lock. */
#ifndef HK_LARGE_MAPPING_H
#define HK_LARGE_MAPPING_H

#include "large/large_state.h"

/* The bytes to map for a block: whole huge pages where these serve it and add little. */
HK_ROOM size_t hk_large_in_whole_huge_pages(size_t bytes);
/* A mapping whose first slice the page map covers; NULL where the limit or the system refuses. */
HK_ROOM void *hk_large_map(size_t bytes, size_t align);
/* Makes the descriptor describe this mapping. */
HK_ROOM void hk_large_enter(struct hk_large_block *large, uintptr_t start, size_t bytes);
/* Requests huge pages, once for each block: a mapping keeps the advice when it is remapped. */
HK_ROOM void hk_large_advise(struct hk_large_block *large);
/* Lengthens in place, else moves the pages. Returns false where the limit or the system refuses: the mapping is unchanged. */
HK_ROOM bool hk_large_lengthen(struct hk_large_block *large, size_t bytes);
HK_ROOM bool hk_large_remap_in_place(struct hk_large_block *large, size_t bytes);
/* Adds the mapping to those found by address. */
HK_ROOM void hk_large_index_locked(struct hk_large_block *large);
/* Clears the page map entry, unless it tells of a heap that has ended, then unmaps. Returns false where the system refuses: the block stays, without its pages. */
HK_ROOM bool hk_large_unmap(struct hk_large_block *large);

#endif
