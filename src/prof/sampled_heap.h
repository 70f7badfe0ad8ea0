/* Sampled heap: holds the blocks that attach sampling picks. The page map has no entries for this heap, so each free of a picked block is a miss.
 *
 *   range of address space -> slabs of 64 KiB, of one block size each -> blocks
 *
 * Owns       This file owns its slabs, and their range, which the first attach reserves. Tables outside the blocks say which blocks are free.
 * Invariant  A slab without live blocks has no block size, and its pages are purged. Only if the system refuses the purge, the slab keeps its block
 *            size.
 * Threads    Any thread may call the functions. All except hk_sampled_heap_holds take one lock, and hold the lock while the system purges a slab. */
#ifndef HK_SAMPLED_HEAP_H
#define HK_SAMPLED_HEAP_H

#include "span/descriptor.h"

/* Describes a range of addresses that is mapped once, after HAKMEM has started. Both fields are 0 until then. */
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

/* Registers the lock of the sampled heap. Called at the start. */
void hk_sampled_heap_init(void);
/* Reserves the range if it is not reserved yet. Returns false if memory is refused. */
bool hk_sampled_heap_open(void);

/* Returns a block of at least `size` bytes, or NULL if the heap has no block of this size and alignment. `size` is at most HK_FINE_MAX. `align` is a
 * power of two. */
void *hk_sampled_heap_alloc(size_t size, size_t align);
/* Returns the size of the block in bytes. Ends the program if `block` is not a live block. Precondition: hk_sampled_heap_holds(block). */
size_t hk_sampled_heap_size(enum hk_call call, const void *block);
/* Frees the block. Ends the program if `block` is not a live block. Precondition: hk_sampled_heap_holds(block). */
void hk_sampled_heap_free(enum hk_call call, void *block);

/* Holds the number of live blocks, the bytes of slabs in use, and the number of blocks ever allocated. */
struct hk_sampled_heap_totals {
    size_t blocks, bytes;
    uint64_t served;
};
struct hk_sampled_heap_totals hk_sampled_heap_total(void);

#endif
