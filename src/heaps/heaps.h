/* Heaps: the room's door for other rooms: user heaps, which the program makes, names, limits, empties and ends. Any thread may use each.
 *
 *   hak_heap_malloc -> cache of (thread, heap): pop -- empty: slabs of the heap, under its lock -- none free: slices, as far as the limit allows
 *   free -> page map entry of a heap: not of this thread, for the hit path; its slow path comes here -> cache: push
 *
 * Owns       the life of a heap (its state: heap_state.h), the list of its large blocks, the note in the descriptor of each, and the page map entry,
 *            which names the heap.
 * Invariant  a page map entry from HK_ENTRY_HEAPS on is a heap's, or that of a slice whose heap has ended; none of these is ever a hit. A large block
 *            has a note and such an entry exactly while it is a heap's. If the heap ends, the entry says so until the addresses serve again, even if
 *            the mapping is gone. A heap is charged the bytes that the program has of the block. Slack and freed blocks are the process's.
 * Threads    any. hk_heaps_reset() and hk_heaps_destroy(): while no other thread uses the heap or its blocks. */
#ifndef HK_HEAPS_H
#define HK_HEAPS_H

#include "heaps/heap_cache.h"
#include "large/large.h"

/* Returns a block from the thread's cache, NULL on a miss. */
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

/* Takes a freed block back if it is a heap's and the thread's cache has room. Returns false otherwise. `entry` is its page map entry. */
HK_INLINE bool hk_heaps_hit_free(struct hk_heap_shelf *shelf, void *block, uint32_t entry)
{
    uint32_t distance = entry - HK_ENTRY_HEAPS;
    return HK_LIKELY(distance < shelf->reach) &&
           hk_heaps_hit_free_at(shelf, distance >> HK_ENTRY_OWNER_SHIFT, distance & HK_ENTRY_CLASS_MASK, block);
}

/* Does the same for a caller that names the heap. Returns false also if the block is not of this heap. */
HK_INLINE bool hk_heaps_hit_free_in(struct hk_heap_shelf *shelf, struct hak_heap *heap, void *block, uint32_t entry)
{
    uint32_t index = heap->index;
    return HK_LIKELY(index < shelf->size) && hk_heaps_hit_free_at(shelf, index, entry ^ heap->key, block);
}

/* Returns a block of any size after a miss. `shelf` may be NULL. *by_limit tells if the limit, not the system, refused. */
void *hk_heaps_alloc(struct hk_heap_shelf *shelf, struct hak_heap *heap, size_t size, size_t align, bool *zeroed,
                     bool *by_limit);
/* Frees a block. `call` is the function that a message names. A free in a heap that has ended has no effect, and the first one is reported. Returns
 * false if the address is no longer in memory of a heap or of HAKMEM. */
bool hk_heaps_free(enum hk_call call, struct hk_heap_shelf *shelf, void *block, uint32_t entry);
/* Returns what is wrong with a free of this address, NULL if it is right or hk_heaps_free() reports it. Precondition: heaps have no caches. */
const char *hk_heaps_fault(const void *block, uint32_t entry);
/* Returns the bytes of a heap's block. Ends the program if no block can begin there. */
size_t hk_heaps_bytes(enum hk_call call, const void *block, uint32_t entry);
/* Resizes a large block of a heap as hk_large_resize() does, if the limit allows it. */
void *hk_heap_large_resize(void *block, size_t size);
/* Returns true for any address in the slabs of heaps, and in the first slices of their large blocks. */
HK_INLINE bool hk_heaps_has(const void *block) { return hk_entry_is_heap(hk_page_map_lookup((uintptr_t)block)); }
/* Returns the heap that has the address, NULL if no heap has it. */
struct hak_heap *hk_heaps_of(const void *block);

/* Frees all blocks of a heap. Returns false if the heap is not open. */
bool hk_heaps_reset(struct hak_heap *heap);
/* Frees all blocks and closes the heap. Returns false if the heap is not open. */
bool hk_heaps_destroy(struct hak_heap *heap);

struct hk_heap_figures {
    char name[HK_HEAP_NAME];
    uint32_t number;
    size_t limit, physical, peak, large, live, cached, live_blocks, caches;
    uint64_t mallocs, refused, resets;
};
/* Fills in the figures. Returns false if the heap is not open. */
bool hk_heaps_figures(struct hak_heap *heap, struct hk_heap_figures *figures);

/* Forgets the caches of threads that a fork child does not have. Returns the number of blocks in them. */
size_t hk_heaps_fork_child(const struct hk_heap_shelf *survivor);

#endif
