/* This header is for files outside the folder heaps. The program creates, resets and destroys user heaps (hakmem.h). Any thread may use any heap.
 *
 *   hak_heap_malloc() pops a block from a bin of the thread's heap cache. If the bin is empty, it is filled from the heap's slabs, under the heap's
 *   lock. If no slab has free blocks, and the limit allows, a slab is made. free() misses the tcache, and pushes the block into the heap cache.
 *
 * Owns       This file owns the beginning and the end of heaps, the lists of their large blocks, and the page map entries of these large blocks.
 * Invariant  A page map entry from HK_ENTRY_HEAPS on belongs to a user heap that is open or has ended. A free with such an entry misses the tcache. A
 *            large block has such an entry exactly while it belongs to a heap. If the heap ends, the entry says so until the address is used again. A
 *            heap is charged for the usable bytes of its large blocks, but not for their slack or for freed blocks.
 * Threads    Any thread may call these functions. During hk_heaps_reset() and hk_heaps_destroy(), no other thread may use the heap or its blocks. */
#pragma once

#include "heaps/heap_cache.h"
#include "large/large.h"

/* Returns a block from the thread's cache of the heap, or NULL on a miss. */
HK_INLINE void *hk_heaps_hit(struct hk_heap_shelf *shelf, struct hak_heap *heap, size_t size)
{
    uint32_t index = heap->index;
    if (HK_UNLIKELY(size > HK_FINE_MAX) || HK_UNLIKELY(index >= shelf->size))
        return NULL;
    hk_heap_hit_begin(shelf);
    struct hk_heap_cache *cache = hk_load(shelf->caches[index]->xhit);
    void *block = hk_heap_pop(cache, hk_fine_offsets[(size + HK_FINE_STEP - 1) / HK_FINE_STEP]);
    hk_heap_hit_end(shelf);
    return block;
}

HK_INLINE bool hk_heaps_hit_free_at(struct hk_heap_shelf *shelf, uint32_t index, size_t offset, void *block)
{
    hk_heap_hit_begin(shelf);
    bool kept = hk_heap_push_at(hk_load(shelf->caches[index]->xhit), offset, block);
    hk_heap_hit_end(shelf);
    return kept;
}

/* Puts a freed block into the thread's cache of the block's heap. Returns false if the block belongs to no heap, or if the cache has no room. */
HK_INLINE bool hk_heaps_hit_free(struct hk_heap_shelf *shelf, void *block, uint32_t entry)
{
    uint32_t distance = entry - HK_ENTRY_HEAPS;
    return HK_LIKELY(distance < shelf->reach) &&
           hk_heaps_hit_free_at(shelf, distance >> HK_ENTRY_OWNER_SHIFT, distance & HK_ENTRY_CLASS_MASK, block);
}

/* Puts a freed block into the thread's cache of `heap`. Returns false if the cache has no room, or if the block does not belong to `heap`. */
HK_INLINE bool hk_heaps_hit_free_in(struct hk_heap_shelf *shelf, struct hak_heap *heap, void *block, uint32_t entry)
{
    uint32_t index = heap->index;
    return HK_LIKELY(index < shelf->size) && hk_heaps_hit_free_at(shelf, index, entry ^ heap->key, block);
}

/* Returns a block of any size after a miss, or NULL. `shelf` may be NULL. Sets *by_limit to true if the heap's limit refused the memory. */
void *hk_heaps_alloc(struct hk_heap_shelf *shelf, struct hak_heap *heap, size_t size, size_t align, bool *zeroed,
                     bool *by_limit);
/* Frees a heap's block. After a reset or end of the heap, reports just the first such free. Returns false if the address is no longer HAKMEM's. */
bool hk_heaps_free(enum hk_call call, struct hk_heap_shelf *shelf, void *block, uint32_t entry);
/* Returns the message for a wrong free of this address. Returns NULL if the free is right, or if hk_heaps_free() reports it. Precondition: heaps have
 * no caches, because a block in a cache would count as allocated. */
const char *hk_heaps_fault(const void *block, uint32_t entry);
/* Returns the size of a heap's block in bytes. Ends the program if it finds that no block begins at `block`. */
size_t hk_heaps_bytes(enum hk_call call, const void *block, uint32_t entry);
/* Resizes a large block of a heap as hk_large_resize() does, if the limit allows it. */
void *hk_heap_large_resize(void *block, size_t size);
/* Returns true if the address lies in a slab of a heap, or in the first slice of a heap's large block. */
HK_INLINE bool hk_heaps_has(const void *block) { return hk_entry_is_heap(hk_page_map_lookup((uintptr_t)block)); }
/* Returns the heap to which the address belongs, or NULL if it belongs to no heap. */
struct hak_heap *hk_heaps_of(const void *block);

/* Each of these functions frees all blocks of a heap. hk_heaps_destroy() then closes the heap. They return false if the heap is not open. */
bool hk_heaps_reset(struct hak_heap *heap);
bool hk_heaps_destroy(struct hak_heap *heap);

struct hk_heap_figures {
    char name[HK_HEAP_NAME];
    uint32_t number;
    size_t limit, physical, peak, large, live, cached, live_blocks, large_blocks, caches;
    uint64_t mallocs, refused, resets;
    uint64_t earlier; /* blocks that closed heaps of this number have handed out */
};
/* Fills in the figures of a heap. Returns false if the heap is not open. */
bool hk_heaps_figures(struct hak_heap *heap, struct hk_heap_figures *figures);

/* Forgets the heap caches of threads that do not exist in the fork child. Returns the number of blocks in these caches. */
size_t hk_heaps_fork_child(const struct hk_heap_shelf *survivor);
