/* Defines free and its variants, and frees blocks after a miss of free or operator delete. */
#include "api/entry.h"
#include "api/instrumented.h"
#include "api/kinds.h"
#include "hakmem.h"

static HK_NOINLINE void free_by_kind(enum hk_call call, void *block, uint32_t entry, size_t size, void *caller)
{
    enum hk_block_kind kind = hk_block_kind_of(block, entry);
    hk_block_check_free(call, block, entry, kind, size);
    hk_block_free(call, block, entry, kind, caller);
}

/* Frees a block outside the window, or any block if the window is shut (before HAKMEM's start, or because options turn on the guard or hooks). */
HK_INLINE void free_elsewhere(enum hk_call call, void *block, size_t size)
{
    block = HK_UNTAGGED(block);
    if (block == NULL)
        return;
    if (HK_UNLIKELY(!hk_mode_is_plain())) {
        hk_instrumented_free(call, block, size, HK_CALLER);
        return;
    }
    uint32_t entry = hk_page_map_lookup((uintptr_t)block);
    bool checked = entry == 0 || hk_entry_is_medium(entry) || (call != HK_CALL_FREE && hk_entry_is_large(entry)) ||
                   hk_self->key == HK_NO_KEY;
    if (HK_UNLIKELY(checked))
        free_by_kind(call, block, entry, size, HK_CALLER);
    else if (entry == hk_entry(HK_NOBODY, HK_CLASS_LARGE))
        hk_tcache_free_large(hk_container_of(hk_self, struct hk_tcache, hot), block);
    else
        hk_tcache_free(hk_container_of(hk_self, struct hk_tcache, hot), block, entry);
}

/* Frees a block in the open window. The hooks need not see a small block in a slab, because attach sampling has a heap for its small blocks. */
HK_INLINE void free_by_entry(enum hk_call call, void *block, struct hk_thread_state *hot, uint32_t entry)
{
    if (HK_UNLIKELY(hk_entry_is_heap(entry)))
        hk_free_in_heap_slow(call, block, entry);
    else if (HK_LIKELY(entry != 0 && (entry & HK_ENTRY_CLASS_MASK) < HK_FINE_CLASSES * HK_CLASS_BYTES &&
                       hot->key != HK_NO_KEY)) /* a block of up to 32 KiB in a slab, and the thread has a cache */
        hk_tcache_free(hk_container_of(hot, struct hk_tcache, hot), block, entry);
    else if (HK_UNLIKELY(!hk_mode_is_plain()))
        hk_instrumented_free(call, block, HK_SIZE_UNKNOWN, HK_CALLER);
    else if (HK_LIKELY(hk_entry_is_medium(entry) && hot->key != HK_NO_KEY && hk_mark_end_fast(block)))
        hk_tcache_free(hk_container_of(hot, struct hk_tcache, hot), block, entry);
    else
        free_by_kind(call, block, entry, HK_SIZE_UNKNOWN, HK_CALLER);
}

/* Frees a block that is not in a slab of this thread. First looks for the block's bitmap word in the outbox, because most of these frees are remote,
 * and their word has an entry there. Tests for a user heap and for kept blocks only afterwards, so that most remote frees do without these tests. */
HK_INLINE void free_not_mine(enum hk_call call, void *block, struct hk_thread_state *hot, size_t offset,
                             void (*look_up)(void *block, struct hk_thread_state *hot, uint32_t entry))
{
    struct hk_outbox *outbox = &hk_container_of(hot, struct hk_cacheless, hot)->outbox;
    if (HK_DEBUG)
        hk_track_freed(call, block, HK_CALLER, hk_entry_owner((uint32_t)hot->key));
    struct hk_outbox_entry *word = hk_outbox_entry_of(outbox, block);
    if (HK_UNLIKELY(word == NULL)) {
        uint32_t entry = (uint32_t)(offset ^ hot->key);
        if (!hk_heaps_hit_free(hk_shelf_beside(hot), block, entry) && !hk_hit_keep(hot, block, entry))
            look_up(block, hot, entry);
    } else if (HK_UNLIKELY(!hk_outbox_put_fast(outbox, word, block))) {
        look_up(block, hot, hk_hit_entry(block));
    }
}

static HK_NOINLINE void keep(void *block, struct hk_thread_state *hot, size_t offset)
{
    hk_tcache_keep(hk_container_of(hot, struct hk_tcache, hot), (unsigned)(offset / HK_CLASS_BYTES), block);
}

/* Frees a block whose bin is full. Detects only a double free of the bin's newest block, because a search of the bin would cost more than a flush. */
HK_INLINE void free_full(enum hk_call call, void *block, struct hk_thread_state *hot, size_t offset)
{
    if (HK_UNLIKELY(*hk_bin_at(hot, offset)->top == block))
        hk_invalid_pointer(call, HK_TEXT_already_free, block);
    keep(block, hot, offset);
}

/* Frees a medium block whose mark is not set. If the slab has marks, hk_mark_check() ends the program, because the block is not live. */
static HK_COLD void free_unmarked(enum hk_call call, void *block, struct hk_thread_state *hot, size_t offset)
{
    hk_mark_check(call, block);
    keep(block, hot, offset);
}

HK_INLINE void free_medium(enum hk_call call, void *block, struct hk_thread_state *hot, size_t offset)
{
    if (HK_UNLIKELY(!hk_mark_end_fast(block)))
        free_unmarked(call, block, hot, offset);
    else if (HK_UNLIKELY(!hk_hit_push_at(hot, &offset, block)))
        keep(block, hot, offset);
}

#define LOOKED_UP void *block, struct hk_thread_state *hot, size_t offset
/* Each kind of miss has one function for free and one for delete, because a parameter `call` would cost an instruction for each remote free. */
static HK_NOINLINE void free_of_entry(void *block, struct hk_thread_state *hot, uint32_t entry)
{
    free_by_entry(HK_CALL_FREE, block, hot, entry);
}
HK_NOINLINE void hk_free_elsewhere(void *block) { free_elsewhere(HK_CALL_FREE, block, HK_SIZE_UNKNOWN); }
HK_NOINLINE HK_ALIGNED(HK_CACHE_LINE) void hk_free_not_mine(LOOKED_UP)
{
    free_not_mine(HK_CALL_FREE, block, hot, offset, free_of_entry);
}
HK_NOINLINE void hk_free_full(LOOKED_UP) { free_full(HK_CALL_FREE, block, hot, offset); }
HK_NOINLINE void hk_free_medium(LOOKED_UP) { free_medium(HK_CALL_FREE, block, hot, offset); }

static HK_NOINLINE void delete_of_entry(void *block, struct hk_thread_state *hot, uint32_t entry)
{
    free_by_entry(HK_CALL_DELETE, block, hot, entry);
}
HK_NOINLINE void hk_delete_elsewhere(void *block) { free_elsewhere(HK_CALL_DELETE, block, HK_SIZE_UNKNOWN); }
HK_NOINLINE HK_ALIGNED(HK_CACHE_LINE) void hk_delete_not_mine(LOOKED_UP)
{
    free_not_mine(HK_CALL_DELETE, block, hot, offset, delete_of_entry);
}
HK_NOINLINE void hk_delete_full(LOOKED_UP) { free_full(HK_CALL_DELETE, block, hot, offset); }
HK_NOINLINE void hk_delete_medium(LOOKED_UP) { free_medium(HK_CALL_DELETE, block, hot, offset); }
HK_NOINLINE void hk_sized_elsewhere(void *block, size_t size, enum hk_call call) { free_elsewhere(call, block, size); }

HK_NOINLINE void hk_sized_full(void *block, size_t size, size_t offset, struct hk_thread_state *hot, enum hk_call call)
{
    hk_sized_check(call, block, (uint32_t)(offset ^ hot->key), size);
    free_full(call, block, hot, offset);
}

static HK_NOINLINE void sized_medium_slow(void *block, size_t size, size_t offset, struct hk_thread_state *hot,
                                          enum hk_call call)
{
    hk_mark_end(call, block);
    hk_sized_check(call, block, (uint32_t)(offset ^ hot->key), size);
    keep(block, hot, offset);
}

/* Frees a medium block directly if `size` belongs to the block's class, and the block is live. Otherwise the slow path checks size and mark. */
HK_NOINLINE void hk_sized_medium(void *block, size_t size, size_t offset, struct hk_thread_state *hot,
                                 enum hk_call call)
{
    size_t beyond = size - HK_FINE_MAX - 1;
    bool fits = beyond < HK_MEDIUM_MAX - HK_FINE_MAX && hk_coarse_offsets[beyond / HK_COARSE_STEP] == offset;
    if (HK_UNLIKELY(!fits) || HK_UNLIKELY(!hk_mark_end_fast(block)))
        sized_medium_slow(block, size, offset, hot, call);
    else if (HK_UNLIKELY(!hk_hit_push_at(hot, &offset, block)))
        keep(block, hot, offset);
}

HK_EXPORT HK_ALIGNED(HK_CACHE_LINE) void hak_free(void *block) { hk_free(block); }

HK_EXPORT void hak_cfree(void *block) { hk_free(block); }

HK_EXPORT void hak_free_sized(void *block, size_t size)
{
    HK_FREE_OR(block, hk_sized_elsewhere(block, size, HK_CALL_FREE_SIZED), hk_free_not_mine(block, hot, offset),
               hk_sized_medium(block, size, offset, hot, HK_CALL_FREE_SIZED),
               hk_sized_full(block, size, offset, hot, HK_CALL_FREE_SIZED));
}

HK_EXPORT void hak_free_aligned_sized(void *block, size_t alignment, size_t size)
{
    (void)alignment;
    hak_free_sized(block, size);
}

HK_REPLACES(void, free, (void *block), hak_free)
HK_REPLACES_IN_GLIBC(void, __libc_free, (void *block), hak_free)
