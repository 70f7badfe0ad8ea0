/* Sampled heap: memory of blocks that are picked while hits stay hits. It has no page map entry, so that each free of such a block misses.
 *
 *   range of address space -> slabs of 64 KiB, of one block size each -> blocks
 *
 * Owns       the range, reserved at the first attach, and its slabs. Tables outside the blocks say which blocks are free; no block is read.
 * Invariant  a slab without live blocks has no size, and its pages were purged.
 * Threads    any (one lock, held over one system call that purges a slab); hk_sampled_heap_holds takes none. */
#ifndef HK_SAMPLED_HEAP_H
#define HK_SAMPLED_HEAP_H

#include "span/descriptor.h"

/* A range of memory that is mapped once, after the start. */
struct hk_late_range {
    _Atomic uintptr_t xstart;
    _Atomic size_t xbytes; /* 0: nothing is mapped yet */
};
extern struct hk_late_range hk_sampled_heap_range;

HK_INLINE bool hk_late_range_holds(const struct hk_late_range *range, const void *p)
{
    size_t bytes = hk_load_acquire(range->xbytes);
    return (uintptr_t)p - hk_load(range->xstart) < bytes;
}
HK_INLINE bool hk_sampled_heap_holds(const void *p) { return hk_late_range_holds(&hk_sampled_heap_range, p); }

/* Registers the lock, at the start. */
void hk_sampled_heap_init(void);
/* Reserves the range if it is not reserved. Returns false if the system refuses. */
bool hk_sampled_heap_open(void);

/* Returns a block of at least `size` bytes, up to HK_FINE_MAX, NULL if there is no room. Its contents are undefined. `align` is a power of two. */
void *hk_sampled_heap_alloc(size_t size, size_t align);
/* Returns the bytes of the block. Ends the program if `block` is not a live block. Precondition: hk_sampled_heap_holds(block). */
size_t hk_sampled_heap_size(enum hk_call call, const void *block);
/* Frees the block. Ends the program if `block` is not a live block. Precondition: hk_sampled_heap_holds(block). */
void hk_sampled_heap_free(enum hk_call call, void *block);

/* The number of live blocks, the bytes of slabs in use, and the blocks allocated in total. */
struct hk_sampled_heap_totals {
    size_t blocks, bytes;
    uint64_t served;
};
struct hk_sampled_heap_totals hk_sampled_heap_total(void);

#endif
