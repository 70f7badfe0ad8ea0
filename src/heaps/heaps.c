#include "heaps/heaps.h"

#include <string.h>

#include "base/bits.h"
#include "base/message.h"
#include "policy/options.h"
#include "slab/live.h"
#include "span/footprint.h"

static void *alloc_large_of_heap(struct hak_heap *heap, unsigned class, bool *by_limit)
{
    void *block = NULL;
    *by_limit = false;
    hk_heap_lock(heap);
    if (hk_heap_is_open(heap) && hk_heap_take(heap, class, &block + 1, 1, by_limit) != 0)
        heap->served++;
    hk_heap_unlock(heap);
    if (block != NULL)
        hk_live_begin(block);
    return block;
}

static void *try_alloc_of_heap(struct hk_heap_shelf *shelf, struct hak_heap *heap, unsigned class, bool *by_limit)
{
    return class < HK_FINE_CLASSES ? hk_heap_refill(shelf, heap, class, by_limit)
                                   : alloc_large_of_heap(heap, class, by_limit);
}

/* If the limit refuses, what the thread's cache holds of other classes may be whole slabs. */
static void *alloc_of_class(struct hk_heap_shelf *shelf, struct hak_heap *heap, unsigned class, bool *by_limit)
{
    void *block = try_alloc_of_heap(shelf, heap, class, by_limit);
    if (HK_UNLIKELY(block == NULL) && *by_limit) {
        hk_heap_shrink(shelf, heap);
        block = try_alloc_of_heap(shelf, heap, class, by_limit);
    }
    return block;
}

void *hk_heaps_alloc(struct hk_heap_shelf *shelf, struct hak_heap *heap, size_t size, size_t align, bool *zeroed,
                     bool *by_limit)
{
    *by_limit = *zeroed = false;
    if (HK_LIKELY(size <= HK_FINE_MAX) && align <= HK_FINE_STEP)
        return alloc_of_class(shelf, heap, hk_class_of(size), by_limit);
    bool scarce = size > HK_FINE_MAX && hk_load(hk_footprint.xscarce);
    unsigned class =
        size <= HK_LARGE_MAX && align <= HK_SLICE && !scarce ? hk_class_of_aligned(size, align) : HK_CLASSES;
    if (class == HK_CLASSES) {
        if (!hk_heap_is_open(heap))
            return NULL;
        void *block = hk_heap_big_alloc(heap, size, align, zeroed, by_limit);
        if (block == NULL && *by_limit) {
            hk_heap_shrink(shelf, heap);
            block = hk_heap_big_alloc(heap, size, align, zeroed, by_limit);
        }
        return block;
    }
    return alloc_of_class(shelf, heap, class, by_limit);
}

/* The heap is gone, and its blocks with it: there is nothing to free. */
static HK_COLD void free_ended(enum hk_call call, const void *block)
{
    static _Atomic bool told;
    if (hk_options.safe_free == HK_SAFE_FREE_STRICT)
        hk_invalid_pointer(call, "block of a heap that was destroyed or reset", block);
    if (!atomic_exchange_explicit(&told, true, memory_order_relaxed))
        hk_report_pointer(call, "block of a heap that was destroyed or reset", block);
}

static HK_COLD _Noreturn void refuse_block(enum hk_call call, const void *block, uint32_t entry)
{
    bool ended = hk_entry_owner(entry) == HK_ENDED_HEAP;
    hk_invalid_pointer(call, ended ? "block of a heap that was destroyed or reset" : "block already free", block);
}

static void put_one_of_heap(struct hak_heap *heap, void *block)
{
    hk_heap_lock(heap);
    hk_heap_put(heap, &block, 1);
    hk_heap_unlock(heap);
}

void hk_heaps_free(enum hk_call call, struct hk_heap_shelf *shelf, void *block, uint32_t entry)
{
    if (HK_UNLIKELY(hk_entry_owner(entry) == HK_ENDED_HEAP)) {
        free_ended(call, block);
        return;
    }
    struct hak_heap *heap = hk_heap_by_index(hk_entry_owner(entry) - HK_FIRST_HEAP);
    unsigned class = hk_heap_class_at(block, entry);
    if (HK_UNLIKELY(class == HK_NO_CLASS))
        refuse_block(call, block, entry);
    if (class < HK_FINE_CLASSES) {
        hk_heap_keep(shelf, heap, class, block);
        return;
    }
    if (class == HK_CLASS_BIG) {
        hk_heap_big_free(call, block);
        return;
    }
    hk_live_end(call, block);
    put_one_of_heap(heap, block);
}

size_t hk_heaps_bytes(enum hk_call call, const void *block, uint32_t entry)
{
    unsigned class = hk_entry_owner(entry) != HK_ENDED_HEAP ? hk_heap_class_at(block, entry) : HK_NO_CLASS;
    if (HK_UNLIKELY(class == HK_NO_CLASS))
        refuse_block(call, block, entry);
    if (class == HK_CLASS_BIG)
        return hk_heap_big_bytes(call, block);
    if (class >= HK_FINE_CLASSES)
        hk_live_check(call, block);
    return hk_classes[class].size;
}

struct hak_heap *hk_heaps_of(const void *block)
{
    uint32_t entry = hk_page_map_lookup((uintptr_t)block);
    return hk_entry_is_heap(entry) ? hk_heap_by_index(hk_entry_owner(entry) - HK_FIRST_HEAP) : NULL;
}

/* The new generation comes first: from there on no cache holds a block, and a thread that ends gives none back. */
static bool empty_heap(struct hak_heap *heap, uint64_t step)
{
    hk_heap_lock(heap);
    bool open = hk_heap_is_open(heap);
    if (open) {
        heap->served += hk_heap_cached(heap).served;
        heap->caches = NULL;
        heap->resets++;
        hk_store_release(heap->xgeneration, hk_load(heap->xgeneration) + step);
        hk_heap_release_all(heap);
    }
    hk_heap_unlock(heap);
    if (open)
        hk_heap_bigs_end(heap);
    return open;
}

bool hk_heaps_reset(struct hak_heap *heap) { return empty_heap(heap, 2); }

bool hk_heaps_destroy(struct hak_heap *heap)
{
    bool open = empty_heap(heap, 1);
    if (open)
        hk_heap_close(heap);
    return open;
}

bool hk_heaps_figures(struct hak_heap *heap, struct hk_heap_figures *figures)
{
    hk_heap_lock(heap);
    struct hk_heap_cached cached = hk_heap_cached(heap);
    size_t big = hk_load(heap->xbig);
    bool open = hk_heap_is_open(heap);
    *figures = (struct hk_heap_figures){
        .number = heap->index,
        .limit = hk_load(heap->xlimit),
        .physical = hk_load(heap->xcharged),
        .peak = hk_load(heap->xpeak),
        .big = big,
        .live = heap->taken - hk_min(heap->taken, cached.bytes) + big,
        .cached = hk_min(heap->taken, cached.bytes),
        .live_blocks = heap->taken_blocks - hk_min(heap->taken_blocks, cached.blocks) + heap->bigs_live,
        .caches = cached.caches,
        .mallocs = heap->served + cached.served + heap->big_calls,
        .refused = hk_load(heap->xrefused),
        .resets = heap->resets,
    };
    memcpy(figures->name, heap->name, sizeof figures->name);
    hk_heap_unlock(heap);
    return open;
}

size_t hk_heaps_fork_child(const struct hk_heap_shelf *survivor)
{
    size_t blocks = 0;
    for (uint32_t index = 0; index < hk_heaps_end(); index++) {
        blocks += hk_heap_forget_caches(hk_heap_by_index(index), survivor);
        hk_heap_bigs_recount(hk_heap_by_index(index));
    }
    return blocks;
}
