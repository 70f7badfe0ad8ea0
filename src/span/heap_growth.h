/* Heap growth: new chunks for an arena, on huge pages if the policy says so.
 * Owns     the amount that one growth maps.
 * Threads  the holder of the page heap's lock. */
#ifndef HK_HEAP_GROWTH_H
#define HK_HEAP_GROWTH_H

#include "span/chunks.h"

/* Grows by a share of the arena's size; if the system refuses, by less, down to `slices`. False if it refuses those too. */
bool hk_arena_grow(struct hk_arena *arena, size_t slices);
bool hk_arena_wants_huge_pages(const struct hk_arena *arena);

#endif
