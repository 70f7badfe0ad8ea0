/* AllocSlow: every allocation that is no hit: its class or a big block, before HAKMEM has started, with hooks, once more after a refusal;
 * and the resizing of blocks in their place.
 * Threads  any. */
#ifndef HK_ALLOC_SLOW_H
#define HK_ALLOC_SLOW_H

#include "base/base.h"

/* NULL if memory is refused. `align` is a power of two, at least 16. *zeroed: the block reads as zeros. `caller`: the return address of
 * the exported function. */
void *hk_alloc_slow(size_t size, size_t align, bool *zeroed, void *caller);

/* True if a block of `now` bytes keeps its place: the size fits and wastes at most half of the block. */
HK_INLINE bool hk_stays(size_t size, size_t now) { return size - 1 < now && (size >= now / 2 || now <= 64); }
/* Resizes a block of `now` bytes without a copy; NULL if that is impossible. */
void *hk_resize_slow(void *block, size_t size, size_t now, void *caller);

#endif
