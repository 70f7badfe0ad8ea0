/* Allocates and frees blocks of user heaps, charges large blocks to a heap's limit, finds the heap of a block, and resets and destroys heaps. */
#include "heaps/heaps.h"

static struct hk_large_block *large_of(struct hk_link *link)
{
    return hk_container_of(link, struct hk_large_block, in_heap);
}

static void mark_as(const struct hak_heap *heap, const void *block)
{
    hk_page_map_set((uintptr_t)block, 1, heap->key | HK_CLASS_LARGE * HK_CLASS_BYTES);
}

/* Charges bytes of a large block to the heap. If the limit refuses, recalls the blocks in caches, which may release slabs, and tries again. */
static bool charge_or_recall(const struct hk_heap_shelf *own, struct hak_heap *heap, size_t bytes)
{
    bool charged = hk_heap_charge(heap, bytes);
    if (HK_UNLIKELY(!charged)) {
        hk_lock(heap->lock);
        hk_heap_recall_locked(own, heap);
        hk_unlock(heap->lock);
        charged = hk_heap_charge(heap, bytes);
    }
    if (charged)
        hk_add(heap->xbig, bytes);
    return charged;
}

static void uncharge_large(struct hak_heap *heap, size_t bytes)
{
    hk_sub(heap->xbig, bytes);
    hk_heap_uncharge(heap, bytes);
}

static void *alloc_large(struct hk_heap_shelf *shelf, struct hak_heap *heap, size_t size, size_t align, bool *zeroed,
                         bool *by_limit)
{
    if (size > PTRDIFF_MAX - HK_SLICE || !hk_heap_is_open(heap))
        return NULL;
    size_t bytes = hk_large_bytes_for(size);
    *by_limit = !charge_or_recall(shelf, heap, bytes);
    if (*by_limit)
        return NULL;
    void *block = hk_large_alloc(size, align, zeroed);
    if (block == NULL) {
        uncharge_large(heap, bytes);
        return NULL;
    }
    mark_as(heap, block);
    hk_lock(heap->lock);
    HK_HEAP_LIST_PUSH(&heap->large, &hk_large_at((uintptr_t)block)->in_heap);
    heap->large_calls++;
    heap->large_blocks_live++;
    hk_unlock(heap->lock);
    return block;
}

static void free_large(struct hak_heap *heap, struct hk_large_block *large, uint32_t entry)
{
    hk_lock(heap->lock);
    heap->large_blocks_live--;
    HK_HEAP_LIST_REMOVE(&heap->large, &large->in_heap);
    hk_unlock(heap->lock);
    large->ended = entry == HK_ENTRY_ENDED_LARGE;
    hk_page_map_set(large->d.start, 1, entry);
    uncharge_large(heap, large->requested);
    hk_large_free((void *)large->d.start);
}

/* Resizes a large block. Afterwards writes the heap's page map entry again, because hk_large_resize() may have replaced it. */
void *hk_heap_large_resize(void *block, size_t size)
{
    struct hk_large_block *large = hk_large_checked(HK_CALL_REALLOC, block);
    struct hak_heap *heap = hk_heaps_of(block);
    size_t bytes = hk_large_bytes_for(size), before = large->requested, charged = hk_max(bytes, before);
    if (charged > before && !charge_or_recall(NULL, heap, charged - before))
        return NULL;
    void *resized = hk_large_resize(block, size);
    if (charged > large->requested)
        uncharge_large(heap, charged - large->requested);
    mark_as(heap, (void *)large->d.start);
    return resized;
}

void *hk_heaps_alloc(struct hk_heap_shelf *shelf, struct hak_heap *heap, size_t size, size_t align, bool *zeroed,
                     bool *by_limit)
{
    *by_limit = *zeroed = false;
    unsigned class = HK_CLASSES;
    if (HK_LIKELY(size <= HK_FINE_MAX) && align <= HK_FINE_STEP)
        class = hk_class_of(size);
    else if (size <= HK_MEDIUM_MAX && align <= HK_SLICE && (size <= HK_FINE_MAX || !hk_load(hk_footprint.xscarce)))
        class = hk_class_of_aligned(size, align);
    if (class >= HK_CLASSES)
        return alloc_large(shelf, heap, size, align, zeroed, by_limit);
    void *block = hk_heap_refill(shelf, heap, class, by_limit);
    if (class >= HK_FINE_CLASSES && block != NULL)
        hk_mark_begin(block);
    return block;
}

/* Reports a free of a block whose heap was reset or has ended. There is nothing to free, because the reset or the end released the block's memory. */
static HK_COLD void free_ended(enum hk_call call, const void *block)
{
    static _Atomic bool told;
    if (hk_options.safe_free == HK_SAFE_FREE_STRICT)
        hk_invalid_pointer(call, HK_TEXT_heap_ended, block);
    if (!atomic_exchange_explicit(&told, true, memory_order_relaxed))
        hk_report_pointer(call, HK_TEXT_heap_ended, block);
}

static bool is_of_ended(uint32_t entry) { return hk_entry_is_left(entry) && entry != HK_ENTRY_EMPTIED; }

/* Returns true, and clears the page map entry, if HAKMEM has unmapped an address, and the program or another allocator has mapped it since. */
HK_READS_SHARED_WORD static HK_COLD bool is_anothers(const void *block, uint32_t entry)
{
    uintptr_t at = (uintptr_t)block, page = hk_align_down(at, hk_system_page());
    unsigned char pages[1];
    bool owned = (hk_page_map_chunk(at)->owned >> (at >> HK_SLICE_SHIFT) % HK_CHUNK_SLICES & 1) != 0;
    return !owned && !hk_large_holds(block) && hk_os.resident((const void *)page, hk_system_page(), pages) &&
           hk_replace(*hk_page_map_entry(at), &entry, 0, memory_order_relaxed);
}

bool hk_heaps_free(enum hk_call call, struct hk_heap_shelf *shelf, void *block, uint32_t entry)
{
    if (HK_UNLIKELY(hk_entry_is_left(entry)) && is_anothers(block, entry))
        return false;
    if (HK_UNLIKELY(is_of_ended(entry))) {
        free_ended(call, block);
        return true;
    }
    struct hak_heap *heap = hk_heap_by_index(hk_entry_owner(entry) - HK_FIRST_HEAP);
    unsigned class = hk_heap_class_at(block, entry);
    if (HK_UNLIKELY(class == HK_NO_CLASS))
        hk_invalid_pointer(call, HK_TEXT_already_free, block);
    if (class == HK_CLASS_LARGE) {
        free_large(heap, hk_large_checked(call, block), hk_entry(HK_NOBODY, HK_CLASS_LARGE));
        return true;
    }
    if (class >= HK_FINE_CLASSES)
        hk_mark_end(call, block);
    hk_heap_keep(shelf, heap, class, block);
    return true;
}

const char *hk_heaps_fault(const void *block, uint32_t entry)
{
    unsigned class = hk_heap_class_at(block, entry);
    if (class == HK_NO_CLASS)
        return is_of_ended(entry) ? NULL : HK_TEXT_already_free;
    if (class == HK_CLASS_LARGE)
        return hk_large_at((uintptr_t)block)->d.start == (uintptr_t)block ? NULL : HK_TEXT_inside;
    struct hak_heap *heap = hk_heap_by_index(hk_entry_owner(entry) - HK_FIRST_HEAP);
    return HK_UNDER(heap->lock, hk_heap_fault_at(block, entry));
}

size_t hk_heaps_bytes(enum hk_call call, const void *block, uint32_t entry)
{
    unsigned class = hk_heap_class_at(block, entry);
    if (HK_UNLIKELY(class == HK_NO_CLASS))
        hk_invalid_pointer(call, is_of_ended(entry) ? HK_TEXT_heap_ended : HK_TEXT_already_free, block);
    if (class == HK_CLASS_LARGE)
        return hk_large_checked(call, block)->requested;
    if (class >= HK_FINE_CLASSES)
        hk_mark_check(call, block);
    return hk_classes[class].size;
}

struct hak_heap *hk_heaps_of(const void *block)
{
    uint32_t entry = hk_page_map_lookup((uintptr_t)block);
    return hk_entry_is_heap(entry) ? hk_heap_by_index(hk_entry_owner(entry) - HK_FIRST_HEAP) : NULL;
}

/* Frees all blocks of a heap, and also closes it if `closes` is true. Begins a new generation first, so that no thread uses the blocks in caches.
 * Returns false if the heap is not open. */
static bool empty_heap(struct hak_heap *heap, bool closes)
{
    hk_lock(heap->lock);
    bool open = hk_heap_is_open(heap);
    if (open) {
        hk_heap_void_caches(heap);
        heap->resets++;
        hk_store_release(heap->xgeneration, hk_load(heap->xgeneration) + (closes ? 1 : 2));
        hk_heap_release_all(heap);
    }
    hk_unlock(heap->lock);
    /* Reads the list without the lock, because no other thread may use the heap during this call. */
    while (open && heap->large != NULL)
        free_large(heap, large_of(heap->large), HK_ENTRY_ENDED_LARGE);
    if (open && closes)
        hk_heap_close(heap);
    return open;
}

bool hk_heaps_reset(struct hak_heap *heap) { return empty_heap(heap, false); }
bool hk_heaps_destroy(struct hak_heap *heap) { return empty_heap(heap, true); }

bool hk_heaps_figures(struct hak_heap *heap, struct hk_heap_figures *figures)
{
    hk_lock(heap->lock);
    struct hk_heap_cached cached = hk_heap_cached(heap);
    size_t large = hk_load(heap->xbig);
    bool open = hk_heap_is_open(heap);
    *figures = (struct hk_heap_figures){
        .number = heap->index,
        .limit = hk_load(heap->xlimit),
        .physical = hk_load(heap->xcharged),
        .peak = hk_load(heap->xpeak),
        .large = large,
        .live = heap->taken - hk_min(heap->taken, cached.bytes) + large,
        .cached = hk_min(heap->taken, cached.bytes),
        .live_blocks = heap->taken_blocks - hk_min(heap->taken_blocks, cached.blocks) + heap->large_blocks_live,
        .large_blocks = heap->large_blocks_live,
        .caches = cached.caches,
        .mallocs = heap->served + cached.served + heap->large_calls,
        .refused = hk_load(heap->xrefused),
        .resets = heap->resets,
        .earlier = heap->earlier,
    };
    memcpy(figures->name, heap->name, sizeof figures->name);
    hk_unlock(heap->lock);
    return open;
}

size_t hk_heaps_fork_child(const struct hk_heap_shelf *survivor)
{
    size_t blocks = 0;
    for (uint32_t index = 0; index < hk_heaps_end(); index++) {
        struct hak_heap *heap = hk_heap_by_index(index);
        size_t bytes = 0, before = hk_load(heap->xbig);
        blocks += hk_heap_forget_caches(heap, survivor);
        /* Adds up the bytes of large blocks again, because at the fork another thread may have charged a block but not listed it yet. */
        for (struct hk_link *link = heap->large; link != NULL; link = link->next)
            bytes += large_of(link)->requested;
        hk_store(heap->xbig, bytes);
        hk_store(heap->xcharged, hk_load(heap->xcharged) - before + bytes);
    }
    return blocks;
}
