/* Heap growth: new chunks for an arena, on huge pages if the policy says so and the system offers some of the size of a chunk.
 *
 *   In the window, each mapping begins where the last one ended: the system merges neighbors, and they are aligned for huge
 *   pages. If another mapping is in the way, the heap skips it; if the system does not let addresses be chosen, the heap
 *   grows anywhere.
 *
 * Owns     the amount that one growth maps; the end of the heap in the window; what the system says about huge pages, read when a heap is
 *          first large enough for them, or before the program enters a sandbox.
 * Threads  the holder of the page heap's lock. thp: any; two that read at the same time read the same. */
#ifndef HK_HEAP_GROWTH_H
#define HK_HEAP_GROWTH_H

#include "span/chunks.h"

/* Called once, after hk_page_map_init(). */
void hk_address_space_init(void);
/* Grows by a share of the arena's size; if the system refuses, by less, down to `slices`. False if it refuses those too. */
bool hk_arena_grow(struct hk_arena *arena, size_t slices);
bool hk_arena_wants_huge_pages(const struct hk_arena *arena);
/* Reads the system's files. */
void hk_thp_look(void);
/* False if the system's mode is `never` or its huge pages have another size; true if the files cannot be read. */
bool hk_thp_serves(void);

#endif
