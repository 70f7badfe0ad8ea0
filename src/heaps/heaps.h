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

/* Returns a block from the thread's cache; NULL on a miss. */
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

/* Takes a block back, if it is a heap's and the thread's cache has room. `entry` is its page map entry. */
HK_INLINE bool hk_heaps_hit_free(struct hk_heap_shelf *shelf, void *block, uint32_t entry)
{
    uint32_t distance = entry - HK_ENTRY_HEAPS;
    return HK_LIKELY(distance < shelf->reach) &&
           hk_heaps_hit_free_at(shelf, distance >> HK_ENTRY_OWNER_SHIFT, distance & HK_ENTRY_CLASS_MASK, block);
}

/* The same, by a caller that names the heap: false also if it is another's. */
HK_INLINE bool hk_heaps_hit_free_in(struct hk_heap_shelf *shelf, struct hak_heap *heap, void *block, uint32_t entry)
{
    uint32_t index = heap->index;
    return HK_LIKELY(index < shelf->size) && hk_heaps_hit_free_at(shelf, index, entry ^ heap->key, block);
}

/* All other calls; `shelf` is NULL in a thread without one. *by_limit: the heap's limit has refused, not the system. */
void *hk_heaps_alloc(struct hk_heap_shelf *shelf, struct hak_heap *heap, size_t size, size_t align, bool *zeroed,
                     bool *by_limit);
/* `call` names the function in a message. A block of a heap that has ended is reported once, and left alone. Returns false for an address that
 * neither a heap nor HAKMEM has any more. */
bool hk_heaps_free(enum hk_call call, struct hk_heap_shelf *shelf, void *block, uint32_t entry);
/* What is wrong with a free of this address of a heap; NULL: nothing, or hk_heaps_free() tells of it. Exact only while heaps have no caches. */
const char *hk_heaps_fault(const void *block, uint32_t entry);
/* The bytes of a block of a slab of a heap. Fatal if no block can begin there. */
size_t hk_heaps_bytes(enum hk_call call, const void *block, uint32_t entry);
/* Resizes a large block of a heap as hk_large_resize() does, within the limit. */
void *hk_heap_large_resize(void *block, size_t size);
/* True for any address in slabs of heaps, and in the first slices of their large blocks. */
HK_INLINE bool hk_heaps_has(const void *block) { return hk_entry_is_heap(hk_page_map_lookup((uintptr_t)block)); }
/* The heap of an address that is a block's; NULL if it is none's. */
struct hak_heap *hk_heaps_of(const void *block);

/* Frees all blocks. False if the heap is not open. */
bool hk_heaps_reset(struct hak_heap *heap);
/* The same, and ends the heap. */
bool hk_heaps_destroy(struct hak_heap *heap);

struct hk_heap_figures {
    char name[HK_HEAP_NAME];
    uint32_t number;
    size_t limit, physical, peak, large, live, cached, live_blocks, caches;
    uint64_t mallocs, refused, resets;
};
/* False if the heap is not open. */
bool hk_heaps_figures(struct hak_heap *heap, struct hk_heap_figures *figures);

/* In a fork child: the caches of threads that it does not have are gone. Returns the blocks in them. */
size_t hk_heaps_fork_child(const struct hk_heap_shelf *survivor);

#endif
