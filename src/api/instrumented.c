/* Serves the calls that the plain allocator must not serve alone. The first part tells hooks and samples, and calls the plain allocator. The second
 * part serves while the guard is on. It calls the first part, and checks each block (block_checks.h) that it gives out or takes back. */
#include "api/instrumented.h"
#include <errno.h>
#include "api/entry.h"
#include "api/kinds.h"
#include "guard/sampled.h"
#include "prof/attach_sampling.h"
#include "prof/hooks.h"
#include "runtime/background.h"
#include "runtime/lifecycle.h"
#include "slab/abandoned.h"
#include "span/bootstrap.h"

/* Returns a block that attach sampling has picked. Returns NULL if the allocation is not picked, or if the heap of picked blocks cannot serve it. */
static HK_COLD void *alloc_watched(struct hk_request *request)
{
    struct hk_tcache *cache = hk_tcache_get();
    if (cache == NULL || !hk_attach_sampling_picks(cache, request->size))
        return NULL;
    request->zeroed = false;
    void *block = request->size <= HK_FINE_MAX ? hk_attach_sampling_alloc(request->size, request->align)
                                               : hk_plain_alloc_large(cache, request);
    if (block != NULL)
        hk_hooks_picked(block, request->size, request->caller);
    return block;
}

/* Returns a block from the bin for the size, or NULL. This takes the place of a hit while the gate is shut. */
HK_INLINE void *pop_fine(size_t size)
{
    size_t steps = (size + HK_FINE_STEP - 1) / HK_FINE_STEP;
    return size <= HK_FINE_MAX ? hk_bin_pop(hk_self, hk_fine_offsets[steps], true) : NULL;
}

/* Allocates a block without telling hooks. Outside rounds of guard samples, only calls that find the bin empty are sampled. */
static void *alloc_unwatched(struct hk_request *request)
{
    bool pops = !hk_mode_has(HK_MODE_NO_POP) && request->align <= HK_FINE_STEP;
    void *block = pops ? pop_fine(request->size) : NULL;
    request->zeroed = false;
    if (block == NULL && hk_mode_has(HK_MODE_SAMPLING))
        block = hk_sampled_alloc(request);
    return block != NULL ? block : hk_plain_serve(request);
}

static void *record_alloc(struct hk_request *request)
{
    if (!hk_mode_has(HK_MODE_HOOKS))
        return alloc_unwatched(request);
    HK_FENCE(memory_order_acquire); /* pairs with hk_mode_set() in the thread that begins to watch a running process */
    void *block = hk_hooks.watches ? alloc_watched(request) : NULL;
    if (block != NULL)
        return block;
    block = alloc_unwatched(request);
    if (HK_LIKELY(block != NULL))
        hk_hooks_alloc(HK_EVENT_alloc, block, request->size, request->caller);
    return block;
}

/* Applies the rule of a site to a medium block, before the caller frees it. Keep-warm holds the block's bin until `until` minus the purge delay. If
 * the block is flushed then, it stays resident until `until`. Purges nothing if the guard's checks need the contents of free blocks. */
static void rule_medium(enum hk_site_rule rule, const void *block, uint32_t entry, uint64_t until)
{
    struct hk_tcache *cache = hk_tcache_self();
    unsigned class = hk_entry_class(entry);
    if (rule == HK_SITE_PURGE_AT_ONCE && !hk_guard.contents)
        hk_slab_purge_block(block);
    bool in_bin = cache != NULL && hk_bin_capacity(&cache->hot.bins[class]) > 0 &&
                  (hk_entry_owner(entry) == cache->owner.id || cache->hot.bins[class].served > 0);
    if (rule != HK_SITE_KEEP_WARM || !in_bin)
        return;
    cache->held_until[class - HK_FINE_CLASSES] = until - hk_min(until, HK_POLICY(purge_delay));
    HK_COUNT(large_kept, 1);
}

/* Tells the hooks about a free. Returns true if a site rule has freed the block. */
static bool free_by_rule(void *block, uint32_t entry)
{
    bool large = hk_entry_is_large(entry), in_slab = hk_hooks.traces && entry != 0 && !large;
    enum hk_site_rule rule = hk_hooks_free(block, in_slab ? hk_guard_bytes(block) : 0);
    if (HK_LIKELY(rule == HK_SITE_NO_RULE))
        return false;
    uint64_t until = hk_os.clock_ms() + hk_options.reuse_worth;
    if (hk_entry_is_medium(entry))
        rule_medium(rule, block, entry, until);
    else if (large && rule == HK_SITE_KEEP_WARM)
        hk_large_keep(block, until);
    else if (large)
        hk_large_drop(block);
    return large;
}

static void record_free(enum hk_call call, void *block, uint32_t entry, size_t size, void *caller)
{
    enum hk_block_kind kind = hk_block_kind_of(block, entry);
    hk_block_check_free(call, block, entry, kind, size); /* ends the program before a hook sees a wrong free */
    if (hk_mode_has(HK_MODE_HOOKS) && !hk_entry_is_heap(entry) && free_by_rule(block, entry))
        return;
    if (!hk_hit_free_known(block, entry))
        hk_block_free(call, block, entry, kind, caller);
}

void *hk_instrumented_resize(void *block, size_t size, size_t now, void *caller)
{
    if (!hk_mode_has(HK_MODE_HOOKS))
        return hk_plain_resize(block, size, now);
    uint64_t record = hk_hooks_resize_begin(block);
    void *resized = hk_plain_resize(block, size, now);
    hk_hooks_resize_end(block, record, resized, size, caller);
    return resized;
}

/* Frees a block that the guard no longer checks. If the guard checks contents, unmaps a large block, because its pages may fault or not be zero. */
static void raw_free(void *block)
{
    uint32_t entry = hk_page_map_lookup((uintptr_t)block);
    if (hk_guard.contents && HK_UNLIKELY(hk_entry_is_large(entry))) {
        if (hk_mode_has(HK_MODE_HOOKS))
            (void)hk_hooks_free(block, 0);
        hk_large_drop(block);
    } else if (HK_UNLIKELY(hk_mode_has(HK_MODE_HOOKS)))
        record_free(HK_CALL_FREE, block, entry, HK_SIZE_UNKNOWN, NULL);
    else if (!hk_hit_free_known(block, entry))
        hk_plain_free(block, entry);
}

/* Returns `block`. If `block` is NULL, frees the block `refused`, because memory for its state or its pages was refused. */
HK_INLINE void *given(void *block, void *refused)
{
    if (HK_UNLIKELY(block == NULL))
        raw_free(refused);
    return block;
}

/* Makes all pages of a reused large block accessible and zero, because they may fault or have old contents. Returns false if the system refuses. */
static HK_COLD bool renewed(void *block)
{
    size_t bytes = hk_guard_bytes(block);
    if (!hk_os.unbar(block, bytes))
        return false;
    if (!hk_os.purge(block, bytes))
        memset(block, 0, bytes);
    return true;
}

static HK_NOINLINE void *alloc_other(struct hk_request *request)
{
    size_t size = request->size;
    void *empty = size == 0 && HK_GUARDS(empty) && request->align <= HK_FINE_STEP ? hk_empty_alloc() : NULL;
    if (empty != NULL)
        return empty;
    struct hk_request whole = *request;
    whole.size = hk_guard_size(size);
    void *block = record_alloc(&whole);
    request->zeroed |= whole.zeroed;
    if (HK_UNLIKELY(block == NULL) || HK_UNLIKELY(hk_page_map_lookup((uintptr_t)block) == 0))
        return block; /* the guard does not check a sampled block, which lies against a guard page */
    bool old = hk_guard.contents && !whole.zeroed && hk_entry_is_large(hk_page_map_lookup((uintptr_t)block));
    if (HK_UNLIKELY(old) && !renewed(block))
        return given(NULL, block);
    return given(hk_guard_give_out(block, hk_guard_bytes(block), size, request->kind), block);
}

static HK_NOINLINE void *malloc_other(size_t size, void *caller)
{
    struct hk_request request = {.size = size, .align = HK_FINE_STEP, .kind = HK_KIND_MALLOC, .caller = caller};
    return alloc_other(&request);
}

static HK_NOINLINE void *handed_first(void *block, size_t offset, size_t size, enum hk_kind kind)
{
    return given(hk_guard_give_out(block, hk_classes[offset / HK_CLASS_BYTES].size, size, kind), block);
}

/* Returns the offset of the bin for a size that passed hk_guard_is_small(). */
HK_INLINE size_t bin_offset(size_t size)
{
    return hk_fine_offsets[(size + HK_LOAD_SETTLED(hk_guard.canary) + HK_FINE_STEP - 1) / HK_FINE_STEP];
}

/* Gives the program a block that was taken from a bin. Returns NULL if memory for the block's state is refused. */
HK_INLINE void *handed(void *block, size_t offset, size_t size, enum hk_kind kind)
{
    hk_state_byte *state = hk_state_in_window((uintptr_t)block);
    if (HK_UNLIKELY(state == NULL))
        return handed_first(block, offset, size, kind);
    if (hk_guard.contents)
        return hk_guard_give_plain(block, hk_classes[offset / HK_CLASS_BYTES].size, size, kind, state);
    hk_store(*state, (uint8_t)(HK_STATE_LIVE | kind));
    return block;
}

static HK_NOINLINE void *guarded_alloc(struct hk_request *request)
{
    size_t offset, size = request->size;
    void *block = NULL;
    request->zeroed = HK_GUARDS(zero);
    if (HK_LIKELY(hk_guard_is_small(size) && request->align <= HK_FINE_STEP && !hk_mode_has(HK_MODE_NO_POP)))
        block = hk_bin_pop(hk_self, offset = bin_offset(size), true);
    return HK_UNLIKELY(block == NULL) ? alloc_other(request) : handed(block, offset, size, request->kind);
}

unsigned hk_guarded_group(const void *block)
{
    return hk_entry_is_plain(hk_page_map_lookup((uintptr_t)block)) ? hk_abandoned_group(block) : 0;
}

HK_NOINLINE void *hk_guarded_alloc_in(unsigned group, struct hk_request *request)
{
    size_t size = hk_guard_size(request->size);
    bool empty = request->size == 0 && HK_GUARDS(empty);
    bool has_slabs = group != 0 && !empty && size <= HK_MEDIUM_MAX && request->align <= HK_SLICE;
    unsigned class = has_slabs ? hk_class_of_aligned(size, request->align) : HK_CLASSES;
    if (class >= HK_CLASSES)
        return guarded_alloc(request);
    request->zeroed = HK_GUARDS(zero);
    void *block = hk_abandoned_alloc(class, HK_FIRST_GROUP + group - 1);
    if (HK_UNLIKELY(block == NULL)) {
        hk_tcache_trim_all(NULL, 0);
        block = hk_abandoned_alloc(class, HK_FIRST_GROUP + group - 1);
    }
    if (HK_UNLIKELY(block == NULL))
        return NULL;
    if (class >= HK_FINE_CLASSES)
        hk_mark_begin(block);
    if (HK_UNLIKELY(hk_mode_has(HK_MODE_HOOKS)))
        hk_hooks_alloc(HK_EVENT_alloc, block, size, request->caller);
    return given(hk_guard_give_out(block, hk_guard_bytes(block), request->size, request->kind), block);
}

static HK_NOINLINE void *guarded_malloc(size_t size, void *caller)
{
    if (HK_UNLIKELY(!hk_guard_is_small(size)))
        return malloc_other(size, caller);
    size_t offset = bin_offset(size);
    void *block = HK_UNLIKELY(hk_mode_has(HK_MODE_NO_POP)) ? NULL : hk_bin_pop(hk_self, offset, true);
    return HK_UNLIKELY(block == NULL) ? malloc_other(size, caller) : handed(block, offset, size, HK_KIND_MALLOC);
}

static HK_NOINLINE void free_other(enum hk_call call, void *block, enum hk_kind kind, size_t size, void *caller)
{
    if (block == NULL)
        return;
    if (HK_GUARDS(empty) && HK_UNLIKELY(hk_is_empty(block))) {
        hk_empty_free(call, block);
        return;
    }
    if (HK_UNLIKELY(hk_slots_hold(block))) {
        hk_sampled_free(call, block, caller);
        return;
    }
    if (HK_UNLIKELY(hk_heaps_has(block))) {
        uint32_t entry = hk_page_map_lookup((uintptr_t)block);
        const char *fault = hk_heaps_fault(block, entry); /* slabs know all free blocks while no heap has a cache */
        if (fault != NULL)
            hk_guard_fault(call, fault, block);
        else
            hk_free_in_heap(call, block, entry, hk_self);
        return;
    }
    block = hk_guard_take_back(call, block, kind, size);
    if (HK_UNLIKELY(block == NULL))
        return;
    if (HK_UNLIKELY(hk_remote_track.on)) {
        (void)hk_tcache_get(); /* makes a cache, because only a thread with a cache captures call stacks */
        hk_track_freed(call, block, caller, hk_entry_owner((uint32_t)hk_self->key));
    }
    raw_free(block);
}

static HK_NOINLINE void free_contents(enum hk_call call, void *block, enum hk_kind kind, hk_state_byte *state,
                                      void *caller)
{
    uint32_t entry = hk_load(hk_window.entries[((uintptr_t)block - hk_window.base) >> HK_SLICE_SHIFT]);
    size_t bytes = hk_entry_is_plain(entry) ? hk_classes[hk_entry_class(entry)].size : SIZE_MAX;
    bool plain = bytes < HK_GUARD_MEDIUM_FROM && (uintptr_t)block % HK_FINE_STEP == 0 && hk_self->key != HK_NO_KEY;
    if (HK_UNLIKELY(!plain) || HK_UNLIKELY(hk_load(*state) != (HK_STATE_LIVE | kind))) {
        free_other(call, block, kind, HK_SIZE_UNKNOWN, caller);
        return;
    }
    hk_guard_retire_plain(call, block, bytes, state);
    if (HK_GUARDS(quarantine))
        block = hk_quarantine_swap(hk_container_of(hk_self, struct hk_tcache, hot), block);
    if (HK_LIKELY(block != NULL))
        raw_free(block);
}

/* Checks and frees a block. The quick path serves most frees. They name no size, and their block is live, in the window, and of the right kind. */
static HK_NOINLINE void guarded_free(enum hk_call call, void *block, enum hk_kind kind, size_t size, void *caller)
{
    hk_state_byte *state = size == HK_SIZE_UNKNOWN ? hk_state_in_window((uintptr_t)block) : NULL;
    if (state != NULL && hk_guard.contents) {
        free_contents(call, block, kind, state, caller);
        return;
    }
    bool plain = state != NULL && hk_guard.frees_plainly && (uintptr_t)block % HK_FINE_STEP == 0;
    if (HK_UNLIKELY(!plain) || HK_UNLIKELY(hk_load(*state) != (HK_STATE_LIVE | kind))) {
        free_other(call, block, kind, size, caller);
        return;
    }
    hk_store(*state, HK_STATE_FREE);
    uint32_t entry = hk_load(hk_window.entries[((uintptr_t)block - hk_window.base) >> HK_SLICE_SHIFT]);
    if (HK_UNLIKELY(!hk_hit_free_known(block, entry)))
        hk_plain_free(block, entry);
}

/* Copies up to `before` bytes of a block into a new block of the same group. Returns the new block, or NULL if memory is refused. */
static void *copy_of(const void *block, size_t before, struct hk_request *request)
{
    void *to = hk_guarded_alloc_in(hk_guarded_group(block), request);
    return to != NULL ? memcpy(to, block, hk_min(before, request->size)) : NULL;
}

static void *move(void *block, size_t before, struct hk_request *request)
{
    void *to = copy_of(block, before, request);
    if (to != NULL)
        free_other(HK_CALL_REALLOC, block, request->kind, HK_SIZE_UNKNOWN, request->caller);
    return to;
}

/* Copies a block of another allocator or of the bootstrap arena to a new block. On failure, returns NULL with errno EINVAL (no block) or ENOMEM. */
static void *move_from_elsewhere(void *block, struct hk_request *request)
{
    size_t before = hk_page_map_lookup((uintptr_t)block) == 0 ? hk_bootstrap_size(block) : 0;
    if (before == SIZE_MAX)
        before = hk_foreign_readable(block);
    void *to = before != 0 ? copy_of(block, before, request) : NULL;
    errno = to != NULL ? errno : before == 0 ? EINVAL : ENOMEM;
    return to;
}

static void *resize_by_pages(void *block, size_t before, const struct hk_request *request)
{
    hk_state_byte *spare = hk_guard_passage_begin(block);
    if (spare == NULL)
        return NULL;
    void *here = hk_instrumented_resize(block, request->size, before, request->caller);
    hk_guard_passage_end(spare, here != NULL ? here : block, request->kind);
    return here;
}

void *hk_guarded_realloc(void *block, struct hk_request *request)
{
    size_t size = request->size;
    if (HK_GUARDS(empty) && hk_is_empty(block))
        return move(block, 0, request);
    if (HK_UNLIKELY(hk_slots_hold(block)))
        return move(block, hk_sampled_size(HK_CALL_REALLOC, block), request);
    if (HK_UNLIKELY(hk_heaps_has(block)))
        return hk_heap_resized(block, size, request->caller);
    size_t before = hk_guard_requested(HK_CALL_REALLOC, block);
    if (HK_UNLIKELY(before == HK_SIZE_UNKNOWN))
        return move_from_elsewhere(block, request);
    request->kind = hk_guard_kind(block);
    if (hk_guard.contents)
        return hk_guard_resize(block, before, size) ? block : move(block, before, request);
    void *to = hk_stays(size, before) ? block : resize_by_pages(block, before, request);
    if (to == NULL)
        to = move(block, before, request);
    /* A resize in place may succeed now, because idle memory was returned to the system when the new block was refused. */
    return to != NULL || size < before ? to : resize_by_pages(block, before, request);
}

size_t hk_guarded_usable_size(const void *block)
{
    if (HK_GUARDS(empty) && hk_is_empty(block))
        return 0;
    if (HK_UNLIKELY(hk_slots_hold(block)))
        return hk_sampled_size(HK_CALL_USABLE_SIZE, block);
    if (HK_UNLIKELY(hk_heaps_has(block)))
        return hk_heaps_bytes(HK_CALL_USABLE_SIZE, block, hk_page_map_lookup((uintptr_t)block));
    size_t size = hk_guard_requested(HK_CALL_USABLE_SIZE, block);
    if (HK_UNLIKELY(size == HK_SIZE_UNKNOWN))
        size = hk_bootstrap_size(block);
    return size != SIZE_MAX ? size : 0;
}

HK_NOINLINE void *hk_instrumented_alloc(struct hk_request *request)
{
    if (!hk_started()) {
        request->zeroed = true;
        return hk_is_bootstrapping() ? hk_bootstrap_alloc(request->size, request->align) : NULL;
    }
    if (hk_mode_has(HK_MODE_GUARD))
        return guarded_alloc(request);
    void *block = record_alloc(request);
    if (HK_UNLIKELY(hk_learning_is_due()))
        hk_learning_tick(); /* also called after hits, because the gate may be shut to make this tick run */
    if (hk_mode_has(HK_MODE_WAKE))
        hk_background_begin_in_malloc(request->caller, hk_thread_make);
    return block;
}

HK_NOINLINE void *hk_instrumented_malloc(size_t size, void *caller)
{
    if (HK_LIKELY(hk_mode_has(HK_MODE_GUARD)))
        return guarded_malloc(size, caller);
    /* If the gate is shut only to count, hooks and samples need not see a call that finds a block. */
    size_t others = HK_LOAD_SETTLED(hk_gate.mode) & ~(size_t)(HK_MODE_SAMPLING | HK_MODE_HOOKS);
    void *block = HK_LIKELY(others == HK_MODE_OPEN) ? pop_fine(size) : NULL;
    if (HK_LIKELY(block != NULL))
        return block;
    struct hk_request request = {.size = size, .align = HK_FINE_STEP, .caller = caller};
    return hk_instrumented_alloc(&request);
}

void hk_instrumented_free(enum hk_call call, void *block, size_t size, void *caller)
{
    bool by_free = call == HK_CALL_FREE || call == HK_CALL_FREE_SIZED;
    enum hk_kind kind = by_free ? HK_KIND_MALLOC : call == HK_CALL_DELETE_ARRAY ? HK_KIND_NEW_ARRAY : HK_KIND_NEW;
    if (HK_LIKELY(hk_mode_has(HK_MODE_GUARD)))
        guarded_free(call, block, kind, size, caller);
    else if (hk_relocated())
        record_free(call, block, hk_page_map_lookup((uintptr_t)block), size, caller);
}
