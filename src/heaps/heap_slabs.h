/* These functions keep the slabs of a user heap. All threads use the same slabs under the heap's lock.
 *
 *   Each of the first slabs of a class of up to 4 KiB takes 1 to 4 pages of a shared slice. Up to 16 slabs share a slice. All further slabs have
 *   spans of their own, like the slabs of threads.
 *
 *   A page map entry has the heap's number and the class. In a shared slice, struct hk_heap_slice has the slab and the class of each page.
 *
 * Owns       This file owns each heap's lists of slabs and shared slices, and the form of their descriptors.
 * Invariant  A slab with free blocks is on `partial` or `empty` of its class. A slab without free blocks is on `full`. The class in a descriptor has
 *            the bit HK_OF_HEAP, so that walks over threads' slabs skip the slab. No block of a user heap is freed remotely, joined or purged.
 * Threads    The holder of the heap's lock calls these functions. The thread that has a block may call hk_heap_class_at().
 * Never      No function touches the memory of the blocks. */
#pragma once

#include "heaps/heap_state.h"
#include "os/os.h"

enum { HK_OF_HEAP = 128, HK_SLICE_PAGES = 16, HK_NO_CLASS = 255 };

/* The descriptor of a slice that several slabs share. */
struct hk_heap_slice {
    struct hk_descriptor d;
    uint8_t classes[HK_SLICE_PAGES]; /* class of each page's slab; HK_NO_CLASS: no slab */
    struct hk_slab **slabs;          /* slab of each page; NULL: none */
    struct hk_heap_slice *next, *prev;
    uint16_t free_pages; /* bit i is set if page i belongs to no slab */
};
_Static_assert(sizeof(struct hk_heap_slice) <= HK_DESCRIPTOR_BYTES - HK_CACHE_LINE, "the line of remote frees stays 0");

/* Returns the class of a block in a shared slice, times HK_CLASS_BYTES. If the page belongs to no slab, the result is higher than for any class. Used
 * if the slice has no marks (slab/slab.h), because marks tell the class faster. */
HK_INLINE size_t hk_heap_unmarked_offset(const void *block)
{
    const struct hk_heap_slice *slice = (const void *)hk_descriptor_at((uintptr_t)block);
    return (size_t)slice->classes[(uintptr_t)block / HK_PAGE % HK_SLICE_PAGES] * HK_CLASS_BYTES;
}

/* Returns the class of a heap's block, or HK_CLASS_LARGE for a large block. Returns HK_NO_CLASS if the address lies in no slab of an open heap. */
HK_INLINE unsigned hk_heap_class_at(const void *block, uint32_t entry)
{
    unsigned class = hk_entry_class(entry);
    if (hk_entry_is_left(entry))
        return HK_NO_CLASS;
    return class <= HK_CLASS_LARGE ? class : (unsigned)(hk_heap_unmarked_offset(block) / HK_CLASS_BYTES);
}

/* Takes up to `want` blocks, and stores them from end[-1] downward, so that a bin pops them in address order. Returns their number.
 * Sets *by_limit to true if it returns 0 because the limit refused. Precondition: *by_limit is false, or hk_heap_take() has set it. */
unsigned hk_heap_take(struct hak_heap *heap, unsigned class, void **end, unsigned want, bool *by_limit);
/* Frees blocks into their slabs. Ends the program if one of them is not an allocated block of the heap. */
void hk_heap_put(struct hak_heap *heap, void *const *blocks, unsigned n);
/* Returns the message for a wrong free of an address in a heap's slabs. Returns NULL if an allocated block begins at the address. */
const char *hk_heap_fault_at(const void *block, uint32_t entry);
/* Releases the slabs whose blocks are all free, which were kept for the next miss. */
void hk_heap_release_empty(struct hak_heap *heap);
/* Releases all slabs, even if they have live blocks. */
void hk_heap_release_all(struct hak_heap *heap);
