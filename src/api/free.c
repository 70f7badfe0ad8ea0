#include "api/entry.h"
#include "api/free_slow.h"
#include "api/guarded.h"
#include "api/heap_blocks.h"
#include "big/big.h"
#include "guard/sampled.h"
#include "guard/sized.h"
#include "hakmem.h"
#include "prof/hooks.h"
#include "runtime/life.h"
#include "slab/live.h"
#include "tcache/tcache.h"

/* Of more than HK_FINE_MAX. One compare: HK_CLASS_BIG is the highest class. */
static bool is_large_or_big(uint32_t entry)
{
    return (entry & HK_ENTRY_CLASS_MASK) >= HK_FINE_CLASSES * HK_CLASS_BYTES;
}

HK_INLINE void free_guarded(enum hk_call call, void *block, size_t size)
{
    enum hk_kind kind = call == HK_CALL_FREE || call == HK_CALL_FREE_SIZED ? HK_KIND_MALLOC : HK_KIND_NEW;
    if (size == HK_SIZE_UNKNOWN)
        hk_guarded_free(call, block, kind);
    else
        hk_guarded_free_sized(call, block, kind, size, __builtin_return_address(0));
}

/* Addresses outside the window; all addresses before HAKMEM has started or while hooks are on. */
HK_INLINE void free_elsewhere(enum hk_call call, void *block, size_t size)
{
    block = HK_UNTAGGED(block);
    if (block == NULL)
        return;
    if (HK_UNLIKELY(HK_LOAD_SETTLED(hk_guard.on))) {
        free_guarded(call, block, size);
        return;
    }
    uint32_t entry = hk_page_map_lookup((uintptr_t)block);
    bool at_the_edge = HK_LOAD_SETTLED(hk_hooks.on) || entry == 0 || hk_entry_is_large(entry) ||
                       (call != HK_CALL_FREE && hk_entry_is_big(entry)) || hk_self->key == HK_NO_KEY;
    if (HK_UNLIKELY(at_the_edge))
        hk_free_slow(call, block, entry, size);
    else if (entry == hk_entry(HK_NOBODY, HK_CLASS_BIG))
        hk_tcache_free_big(hk_container_of(hk_self, struct hk_tcache, hot), block);
    else
        hk_tcache_free(hk_container_of(hk_self, struct hk_tcache, hot), block, entry);
}

HK_NOINLINE void hk_free_elsewhere(void *block) { free_elsewhere(HK_CALL_FREE, block, HK_SIZE_UNKNOWN); }
HK_NOINLINE void hk_delete_elsewhere(void *block) { free_elsewhere(HK_CALL_DELETE, block, HK_SIZE_UNKNOWN); }
HK_NOINLINE void hk_sized_elsewhere(void *block, size_t size, enum hk_call call) { free_elsewhere(call, block, size); }

/* hk_free_slow() checks a big block before a hook sees its free. Hooks of a process that began without them see only big blocks here: what
 * else they picked has no entry. */
HK_INLINE void free_looked_up(enum hk_call call, void *block, struct hk_hot *hot, uint32_t entry)
{
    if (HK_UNLIKELY(hk_entry_is_heap(entry))) {
        hk_free_in_heap_slow(call, block, entry);
        return;
    }
    bool at_the_edge = entry == 0 || is_large_or_big(entry) || hot->key == HK_NO_KEY;
    if (HK_UNLIKELY(at_the_edge))
        hk_free_slow(call, block, entry, HK_SIZE_UNKNOWN);
    else
        hk_tcache_free(hk_container_of(hot, struct hk_tcache, hot), block, entry);
}

static HK_NOINLINE void free_not_mine(void *block, struct hk_hot *hot, uint32_t entry)
{
    free_looked_up(HK_CALL_FREE, block, hot, entry);
}
static HK_NOINLINE void delete_not_mine(void *block, struct hk_hot *hot, uint32_t entry)
{
    free_looked_up(HK_CALL_DELETE, block, hot, entry);
}

/* Most are remote frees, and most of these join a word that the outbox has already. All others leave at the first compare, those of heaps for
 * the thread's cache of the heap: remote frees pay nothing for them. */
HK_NOINLINE void hk_free_not_mine(void *block, struct hk_hot *hot, size_t offset)
{
    struct hk_outbox *outbox = hk_outbox_beside(hot);
    uint32_t entry;
    if (HK_DEBUG)
        hk_track_freed(HK_CALL_FREE, block, __builtin_return_address(0), hk_entry_owner((uint32_t)hot->key));
    struct hk_outbox_entry *word = hk_outbox_entry_of(outbox, block);
    if (HK_UNLIKELY(word == NULL)) {
        entry = (uint32_t)(offset ^ hot->key);
        if (!hk_heaps_hit_free(hk_shelf_beside(hot), block, entry))
            free_not_mine(block, hot, entry);
    } else if (HK_UNLIKELY(!hk_outbox_put_fast(outbox, word, block))) {
        free_not_mine(block, hot, hk_hit_entry(block));
    }
}

HK_NOINLINE void hk_delete_not_mine(void *block, struct hk_hot *hot, size_t offset)
{
    struct hk_outbox *outbox = hk_outbox_beside(hot);
    uint32_t entry;
    if (HK_DEBUG)
        hk_track_freed(HK_CALL_DELETE, block, __builtin_return_address(0), hk_entry_owner((uint32_t)hot->key));
    struct hk_outbox_entry *word = hk_outbox_entry_of(outbox, block);
    if (HK_UNLIKELY(word == NULL)) {
        entry = (uint32_t)(offset ^ hot->key);
        if (!hk_heaps_hit_free(hk_shelf_beside(hot), block, entry))
            delete_not_mine(block, hot, entry);
    } else if (HK_UNLIKELY(!hk_outbox_put_fast(outbox, word, block))) {
        delete_not_mine(block, hot, hk_hit_entry(block));
    }
}

static HK_NOINLINE void keep(void *block, struct hk_hot *hot, size_t offset)
{
    hk_tcache_keep(hk_container_of(hot, struct hk_tcache, hot), (unsigned)(offset / HK_CLASS_BYTES), block);
}

/* Looks at the newest item only: the others would cost more than a flush. */
HK_INLINE void free_full(enum hk_call call, void *block, struct hk_hot *hot, size_t offset)
{
    if (HK_UNLIKELY(*hk_bin_at(hot, offset)->top == block))
        hk_invalid_pointer(call, "block already free", block);
    keep(block, hot, offset);
}

HK_NOINLINE void hk_free_full(void *block, struct hk_hot *hot, size_t offset)
{
    free_full(HK_CALL_FREE, block, hot, offset);
}
HK_NOINLINE void hk_delete_full(void *block, struct hk_hot *hot, size_t offset)
{
    free_full(HK_CALL_DELETE, block, hot, offset);
}

/* Without a mark: it says why not, unless the block's slab has none. */
static HK_COLD void free_unmarked(enum hk_call call, void *block, struct hk_hot *hot, size_t offset)
{
    hk_live_check(call, block);
    keep(block, hot, offset);
}

HK_INLINE void free_large(enum hk_call call, void *block, struct hk_hot *hot, size_t offset)
{
    if (HK_UNLIKELY(!hk_live_end_fast(block)))
        free_unmarked(call, block, hot, offset);
    else if (HK_UNLIKELY(!hk_hit_push_at(hot, &offset, block)))
        keep(block, hot, offset);
}

HK_NOINLINE void hk_free_large(void *block, struct hk_hot *hot, size_t offset)
{
    free_large(HK_CALL_FREE, block, hot, offset);
}
HK_NOINLINE void hk_delete_large(void *block, struct hk_hot *hot, size_t offset)
{
    free_large(HK_CALL_DELETE, block, hot, offset);
}

HK_NOINLINE void hk_sized_full(void *block, size_t size, size_t offset, struct hk_hot *hot, enum hk_call call)
{
    hk_sized_check(call, block, (uint32_t)(offset ^ hot->key), size);
    free_full(call, block, hot, offset);
}

static HK_NOINLINE void sized_large_slow(void *block, size_t size, size_t offset, struct hk_hot *hot, enum hk_call call)
{
    hk_live_end(call, block);
    hk_sized_check(call, block, (uint32_t)(offset ^ hot->key), size);
    keep(block, hot, offset);
}

/* The size is one of the block's class: right for every call. All else is left to the slow path. */
HK_NOINLINE void hk_sized_large(void *block, size_t size, size_t offset, struct hk_hot *hot, enum hk_call call)
{
    size_t beyond = size - HK_FINE_MAX - 1;
    bool fits = beyond < HK_LARGE_MAX - HK_FINE_MAX && hk_coarse_offsets[beyond / HK_COARSE_STEP] == offset;
    if (HK_UNLIKELY(!fits) || HK_UNLIKELY(!hk_live_end_fast(block)))
        sized_large_slow(block, size, offset, hot, call);
    else if (HK_UNLIKELY(!hk_hit_push_at(hot, &offset, block)))
        keep(block, hot, offset);
}

HK_EXPORT void hak_free(void *block) { hk_free(block); }

HK_EXPORT void hak_free_sized(void *block, size_t size)
{
    struct hk_hot *hot;
    size_t offset;
    enum hk_free_end end = hk_hit_free(block, &hot, &offset);
    if (HK_UNLIKELY(end == HK_FREE_ELSEWHERE))
        hk_sized_elsewhere(block, size, HK_CALL_FREE_SIZED);
    else if (HK_UNLIKELY(end == HK_FREE_NOT_MINE))
        hk_free_not_mine(block, hot, offset);
    else if (HK_UNLIKELY(end == HK_FREE_LARGE))
        hk_sized_large(block, size, offset, hot, HK_CALL_FREE_SIZED);
    else if (HK_UNLIKELY(end == HK_FREE_FULL))
        hk_sized_full(block, size, offset, hot, HK_CALL_FREE_SIZED);
}

HK_EXPORT void hak_free_aligned_sized(void *block, size_t alignment, size_t size)
{
    (void)alignment;
    hak_free_sized(block, size);
}

HK_REPLACES(void, free, (void *block), hak_free)
HK_REPLACES_IN_GLIBC(void, __libc_free, (void *block), hak_free)
