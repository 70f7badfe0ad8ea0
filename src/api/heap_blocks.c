/* Allocates and frees blocks of user heaps after a miss, and resizes blocks of user heaps. */
#include "api/entry.h"
#include <errno.h>
#include "api/plain_alloc.h"
#include "guard/guard.h"
#include "prof/attach_sampling.h"
#include "prof/hooks.h"
#include "runtime/lifecycle.h"

/* Returns true if heaps have no caches, so that the guard or hooks see each call. */
static HK_COLD bool sees_each_call(void) { return HK_LOAD_SETTLED(hk_guard.on) || hk_hooks_see_heaps(); }

/* Returns the shelf of a tcache. Returns NULL if `cache` is NULL, or if heaps have no caches. */
HK_INLINE struct hk_heap_shelf *shelf_of(struct hk_tcache *cache)
{
    bool seen = HK_UNLIKELY(hk_mode_has(HK_MODE_GUARD | HK_MODE_HOOKS)) && sees_each_call();
    return cache != NULL && !seen ? &cache->shelf : NULL;
}

/* Tells the hooks of an allocation. If the gate is shut, `hakmem` may wait for the learner's tick. */
static HK_COLD void tell_hooks(const void *block, size_t size, void *caller)
{
    if (hk_mode_has(HK_MODE_HOOKS) && block != NULL)
        hk_hooks_alloc_in_heap(block, size, caller);
    if (hk_learning_is_due())
        hk_learning_tick();
}

HK_COLD void *hk_failed(int error)
{
    errno = error;
    return NULL;
}

static HK_COLD void *heap_refused(struct hak_heap *heap, bool by_limit)
{
    if (!hk_heap_is_open(heap))
        return hk_failed(EINVAL);
    if (by_limit)
        hk_add(heap->xrefused, 1);
    else
        HK_COUNT(out_of_memory, 1);
    return hk_failed(ENOMEM);
}

static HK_COLD void *after_trim(struct hk_tcache *cache, struct hak_heap *heap, size_t size, size_t align, bool *zeroed)
{
    if (size >= (size_t)1 << HK_ADDRESS_BITS || !hk_heap_is_open(heap))
        return NULL;
    hk_tcache_trim_all(cache, 0);
    return hk_heaps_alloc(shelf_of(cache), heap, size, align, zeroed, &(bool){false});
}

/* Returns a block of a user heap, or NULL. If the system refuses memory, purges idle memory and tries again. Keeps errno, as the functions of the system do (os.h). */
HK_INLINE void *try_heap(struct hak_heap *heap, size_t size, size_t align, bool *zeroed, bool *by_limit, void *caller)
{
    struct hk_tcache *cache = hk_tcache_get();
    void *block = hk_heaps_alloc(shelf_of(cache), heap, size, align, zeroed, by_limit);
    if (HK_UNLIKELY(block == NULL) && !*by_limit)
        block = after_trim(cache, heap, size, align, zeroed);
    if (HK_UNLIKELY(hk_mode_has(HK_MODE_HOOKS) || !hk_mode_has(HK_MODE_OPEN)))
        tell_hooks(block, size, caller);
    if (cache != NULL)
        hk_tick(cache, HK_TICK_SLOW_CALL);
    return block;
}

HK_NOINLINE void *hk_heap_alloc_slow(struct hak_heap *heap, size_t size, size_t align, bool *zeroed, void *caller)
{
    bool by_limit;
    void *block = try_heap(heap, size, align, zeroed, &by_limit, caller);
    return HK_LIKELY(block != NULL) ? block : heap_refused(heap, by_limit);
}

HK_NOINLINE void hk_free_in_heap_slow(enum hk_call call, void *block, uint32_t entry)
{
    struct hk_tcache *cache = hk_tcache_get();
    if (HK_UNLIKELY(hk_mode_has(HK_MODE_HOOKS)))
        (void)hk_hooks_free(block, 0);
    if (!hk_heaps_free(call, shelf_of(cache), block, entry))
        hk_tcache_free_foreign(call, block);
    if (cache != NULL)
        hk_tick(cache, HK_TICK_SLOW_CALL);
}

HK_NOINLINE void hk_free_in_heap(enum hk_call call, void *block, uint32_t entry, struct hk_thread_state *hot)
{
    if (HK_UNLIKELY(!hk_heaps_hit_free(hk_shelf_beside(hot), block, entry)))
        hk_free_in_heap_slow(call, block, entry);
}

static void *resized_large(void *block, size_t size, void *caller)
{
    if (!hk_entry_is_large(hk_page_map_lookup((uintptr_t)block)))
        return NULL;
    uint64_t record = hk_mode_has(HK_MODE_HOOKS) ? hk_hooks_resize_begin(block) : 0;
    void *resized = hk_heap_large_resize(block, size);
    if (HK_UNLIKELY(hk_mode_has(HK_MODE_HOOKS)))
        hk_hooks_resize_end(block, record, resized, size, caller);
    return resized;
}

void *hk_heap_resized(void *block, size_t size, void *caller)
{
    bool zeroed, by_limit;
    size_t now = hk_heaps_bytes(HK_CALL_REALLOC, block, hk_page_map_lookup((uintptr_t)block));
    if (hk_stays(size, now))
        return block;
    void *resized = resized_large(block, size, caller);
    if (resized != NULL)
        return resized;
    struct hak_heap *heap = hk_heaps_of(block);
    void *moved = hk_heaps_hit(hk_shelf_beside(hk_self), heap, size);
    if (moved == NULL)
        moved = try_heap(heap, size, HK_FINE_STEP, &zeroed, &by_limit, caller);
    if (HK_UNLIKELY(moved == NULL)) { /* the old block may grow now, if try_heap() has returned idle memory */
        resized = size <= now ? block : resized_large(block, size, caller);
        return resized != NULL ? resized : heap_refused(heap, by_limit);
    }
    memcpy(moved, block, hk_min(size, now));
    hk_free_in_heap(HK_CALL_REALLOC, block, hk_page_map_lookup((uintptr_t)block), hk_self);
    return moved;
}
