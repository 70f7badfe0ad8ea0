/* Big mapping: how a big block is mapped, remapped, put on huge pages and unmapped.
 * Owns     `d` and `huge` of big blocks; the number of blocks on huge pages.
 * Threads  the thread that took the block out of the lists; `_locked`: the holder of the big lock. */
#ifndef HK_BIG_MAPPING_H
#define HK_BIG_MAPPING_H

#include "big/big_state.h"

/* The bytes to map for a block: whole huge pages where these serve it and add little. */
HK_ROOM size_t hk_big_in_whole_huge_pages(size_t bytes);
/* A mapping whose first slice the page map covers; NULL where the limit or the system refuses. */
HK_ROOM void *hk_big_map(size_t bytes, size_t align);
/* Makes the descriptor describe this mapping. */
HK_ROOM void hk_big_enter(struct hk_big_block *big, uintptr_t start, size_t bytes);
/* Requests huge pages, once for each block: a mapping keeps the advice when it is remapped. */
HK_ROOM void hk_big_advise(struct hk_big_block *big);
/* Lengthens in place, else moves the pages. Returns false where the limit or the system refuses: the mapping is unchanged. */
HK_ROOM bool hk_big_lengthen(struct hk_big_block *big, size_t bytes);
HK_ROOM bool hk_big_remap_in_place(struct hk_big_block *big, size_t bytes);
/* Adds the mapping to those found by address. */
HK_ROOM void hk_big_index_locked(struct hk_big_block *big);
/* Clears the page map entry, then unmaps. Returns false where the system refuses: the block stays, without its pages. */
HK_ROOM bool hk_big_unmap(struct hk_big_block *big);

#endif
