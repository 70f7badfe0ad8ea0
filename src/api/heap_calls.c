/* Defines the functions of hakmem.h for user heaps. */
#include <errno.h>
#include "api/entry.h"
#include "api/plain_alloc.h"
#include "hakmem.h"
#include "prof/hooks.h"
#include "runtime/lifecycle.h"

static HK_NOINLINE void *heap_malloc_slow(struct hak_heap *heap, size_t size, void *caller)
{
    bool zeroed;
    return hk_heap_alloc_slow(heap, size, HK_FINE_STEP, &zeroed, caller);
}

HK_EXPORT struct hak_heap *hak_heap_create(const char *name, size_t limit)
{
    (void)hk_tcache_get();
    struct hak_heap *heap = hk_started() ? hk_heap_open(name, limit) : NULL;
    return heap != NULL ? heap : hk_failed(ENOMEM);
}

HK_EXPORT void *hak_heap_malloc(struct hak_heap *heap, size_t size)
{
    void *block = hk_heaps_hit(hk_shelf_beside(hk_self), heap, size);
    return HK_LIKELY(block != NULL) ? block : heap_malloc_slow(heap, size, HK_CALLER);
}

HK_EXPORT void *hak_heap_calloc(struct hak_heap *heap, size_t count, size_t size)
{
    size_t bytes;
    bool zeroed = false;
    if (__builtin_mul_overflow(count, size, &bytes))
        return hk_failed(ENOMEM);
    void *block = hk_heaps_hit(hk_shelf_beside(hk_self), heap, bytes);
    if (block == NULL && (block = hk_heap_alloc_slow(heap, bytes, HK_FINE_STEP, &zeroed, HK_CALLER)) == NULL)
        return NULL;
    return zeroed ? block : hk_zero(block, bytes);
}

HK_EXPORT void *hak_heap_aligned_alloc(struct hak_heap *heap, size_t alignment, size_t size)
{
    bool zeroed;
    if (!hk_is_pow2(alignment))
        return hk_failed(EINVAL);
    if (alignment <= HK_FINE_STEP)
        return hak_heap_malloc(heap, size);
    return hk_heap_alloc_slow(heap, size, alignment, &zeroed, HK_CALLER);
}

HK_EXPORT void hak_heap_free(struct hak_heap *heap, void *block)
{
    if (HK_UNLIKELY(!hk_heaps_hit_free_in(hk_shelf_beside(hk_self), heap, block, hk_hit_entry(block))))
        hak_free(block);
}

HK_EXPORT void *hak_heap_realloc(struct hak_heap *heap, void *block, size_t size)
{
    if (block == NULL)
        return hak_heap_malloc(heap, size);
    if (size == 0) {
        hak_free(block);
        return NULL;
    }
    if (hk_heaps_of(block) == heap)
        return hk_heap_resized(block, size, HK_CALLER);
    size_t now = hak_malloc_usable_size(block);
    return hk_move_exactly(hak_heap_malloc(heap, size), block, hk_min(size, now));
}

HK_EXPORT struct hak_heap *hak_heap_of(const void *block)
{
    bool picked = hk_attach_sampling_has(hk_page_map_lookup((uintptr_t)block));
    return block != NULL && !picked ? hk_heaps_of(block) : NULL;
}

static int heap_done(bool open)
{
    if (!open)
        errno = EINVAL;
    return open ? 0 : -1;
}

/* Ends the blocks of a heap. `how` is hk_heaps_reset() or hk_heaps_destroy(). */
static int end_blocks(struct hak_heap *heap, bool (*how)(struct hak_heap *heap))
{
    if (heap != NULL && HK_UNLIKELY(hk_load(heap->xsampled))) {
        hk_hooks_forget_heap(heap);
        hk_store(heap->xsampled, false);
    }
    return heap_done(heap != NULL && how(heap));
}

HK_EXPORT int hak_heap_reset(struct hak_heap *heap) { return end_blocks(heap, hk_heaps_reset); }
HK_EXPORT int hak_heap_destroy(struct hak_heap *heap) { return end_blocks(heap, hk_heaps_destroy); }

HK_EXPORT int hak_heap_set_limit(struct hak_heap *heap, size_t limit)
{
    bool open = heap != NULL && hk_heap_is_open(heap);
    if (open)
        hk_store(heap->xlimit, limit);
    return heap_done(open);
}

/* Writes `size` bytes, because the caller may be compiled with an older or newer version of struct hak_heap_stats. */
HK_EXPORT int hak_heap_get_stats(struct hak_heap *heap, struct hak_heap_stats *stats, size_t size)
{
    struct hk_heap_figures figures;
    if (heap == NULL || stats == NULL || size < sizeof stats->size || !hk_heaps_figures(heap, &figures))
        return heap_done(false);
    struct hak_heap_stats filled = {
        .size = hk_align_down(hk_min(size, sizeof filled), sizeof(uint64_t)),
#define HK_HEAP_FIGURE(name, field, kind, unit, width, meaning) .field = figures.field,
#include "report/heap_figures.def"
    };
    memcpy(filled.name, figures.name, sizeof filled.name);
    memcpy(stats, &filled, filled.size);
    memset((char *)stats + filled.size, 0, size - filled.size);
    return 0;
}
