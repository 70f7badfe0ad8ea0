/* Allocates, frees and resizes large blocks. A request takes a cached block that fits, or a new mapping. */
#include "large/large.h"
#include "count/stats.h"

static struct hk_large_block *map_new(size_t requested, size_t align)
{
    struct hk_large_block *large = (struct hk_large_block *)(void *)hk_descriptor_new();
    if (large == NULL)
        return NULL;
    large->d.bytes = 0; /* not mapped yet, so hk_large_enter() will count the whole mapping */
    size_t bytes = hk_large_in_whole_huge_pages(requested);
    void *p = hk_large_map(bytes, align);
    if (p == NULL && bytes != requested)
        p = hk_large_map(bytes = requested, align);
    if (p == NULL && hk_large_purge(0, 0, SIZE_MAX) > 0)
        p = hk_large_map(bytes, align);
    if (p == NULL) {
        hk_footprint_refused(!hk_footprint_allows(bytes));
        hk_descriptor_drop(&large->d);
        return NULL;
    }
    hk_large_enter(large, (uintptr_t)p, bytes);
    HK_COUNT(large_mapped, 1);
    HK_COUNT(large_fresh, requested);
    hk_lock(&hk_large.lock);
    hk_large_note_if_missed_locked(requested);
    hk_extents_add(large);
    hk_large_set_requested_locked(large, requested);
    hk_large.totals.blocks++;
    hk_unlock(&hk_large.lock);
    return large;
}

/* Resizes a block. Returns its address, or NULL on failure. The block leaves the extents while its mapping changes, so that no thread finds it. */
static void *resize(struct hk_large_block *large, size_t bytes)
{
    size_t requested = large->requested;
    hk_lock(&hk_large.lock);
    hk_large_unset_requested_locked(large);
    bool done = true;
    if (large->d.bytes < bytes || large->d.bytes > hk_large_loosest(bytes)) {
        hk_extents_remove(large);
        hk_unlock(&hk_large.lock);
        done = bytes > large->d.bytes ? hk_large_lengthen(large, bytes) : hk_large_remap_in_place(large, bytes);
        hk_lock(&hk_large.lock);
        hk_extents_add(large);
    }
    hk_large_set_requested_locked(large, done ? bytes : requested);
    hk_unlock(&hk_large.lock);
    return done ? (void *)large->d.start : NULL;
}

/* Returns a cached block, which is resized if its size does not fit. Returns NULL if no cached block fits, or if the block cannot be resized. */
static struct hk_large_block *reuse(size_t bytes, size_t align)
{
    struct hk_large_block *large = hk_large_take_cached(bytes, align);
    if (large == NULL || large->requested == bytes || resize(large, bytes) != NULL)
        return large;
    hk_large_free((void *)large->d.start);
    return NULL;
}

void *hk_large_alloc(size_t size, size_t align, bool *zeroed)
{
    if ((size | align) > PTRDIFF_MAX / 2)
        return NULL;
    size_t bytes = hk_large_bytes_for(size);
    align = hk_max(align, hk_system_page());
    struct hk_large_block *large = reuse(bytes, align);
    *zeroed = large == NULL;
    HK_COUNT(large_reused, large != NULL);
    if (large == NULL)
        large = map_new(bytes, align);
    return large != NULL ? (void *)large->d.start : NULL;
}

struct hk_large_block *hk_large_checked(enum hk_call call, const void *block)
{
    struct hk_large_block *large = hk_large_at((uintptr_t)block);
    if (large->d.start != (uintptr_t)block)
        hk_invalid_pointer(call, HK_TEXT_inside, block);
    if (hk_link_linked(&large->link))
        hk_invalid_pointer(call, HK_TEXT_already_free, block);
    return large;
}

void hk_large_check(enum hk_call call, const void *block) { HK_UNDER(&hk_large.lock, hk_large_checked(call, block)); }

static HK_NOINLINE void note_gone_locked(struct hk_large_block *large)
{
    hk_store(hk_large.xgone, hk_load(hk_large.xgone) + large->requested);
    if (!large->modified && HK_POLICY(huge_blocks_from) != 0)
        hk_large_note_use_locked(large);
    large->modified |= hk_large_wastes_huge_pages(large);
}

static struct hk_large_block *retire_locked(void *block)
{
    struct hk_large_block *large = hk_large_checked(HK_CALL_FREE, block);
    if (HK_UNLIKELY(hk_load(hk_large.xunnoted)))
        hk_large_mark_all_locked();
    if (large->requested >= HK_POLICY(huge_blocks_from))
        note_gone_locked(large);
    hk_large_unset_requested_locked(large);
    hk_large.totals.blocks--;
    large->idle_from = hk_age_stamp(hk_reuse_now());
    return large;
}

/* Takes a freed block back. If the block may be cached, returns the block with the lock held. Otherwise unmaps the block and returns NULL. */
HK_INLINE struct hk_large_block *retire_for_cache(void *block)
{
    hk_lock(&hk_large.lock);
    struct hk_large_block *large = retire_locked(block);
    if (HK_LIKELY(!large->modified))
        return large;
    hk_unlock(&hk_large.lock);
    bool wastes = hk_large_wastes_huge_pages(large);
    HK_COUNT(large_unused, wastes);
    HK_COUNT(large_modified, !wastes);
    hk_large_release(large);
    return NULL;
}

void hk_large_free(void *block)
{
    struct hk_large_block *large = retire_for_cache(block);
    if (HK_UNLIKELY(large == NULL))
        return;
    hk_reuse_idled(large->d.bytes);
    hk_large_put_cached_locked(large);
    bool over = hk_large.totals.cached > hk_min(hk_large_excess_from_locked(), hk_large_budget());
    hk_unlock(&hk_large.lock);
    if (over)
        hk_large_hold_to_budget();
}

void hk_large_keep(void *block, uint64_t until_ms)
{
    struct hk_large_block *large = retire_for_cache(block);
    if (HK_UNLIKELY(large == NULL))
        return;
    large->idle_since = until_ms - hk_min(until_ms, HK_POLICY(purge_delay));
    hk_large_keep_cached_locked(large);
    hk_unlock(&hk_large.lock);
    HK_COUNT(large_kept, 1);
    hk_large_hold_to_budget();
}

void hk_large_drop(void *block)
{
    struct hk_large_block *large = HK_UNDER(&hk_large.lock, retire_locked(block));
    HK_COUNT(large_dropped, 1);
    hk_large_release(large);
}

void *hk_large_resize(void *block, size_t size)
{
    if (size < HK_SLICE || size > PTRDIFF_MAX - HK_SLICE)
        return NULL;
    hk_large_check(HK_CALL_REALLOC, block);
    return resize(hk_large_at((uintptr_t)block), hk_in_system_pages(size));
}

bool hk_large_holds(const void *p)
{
    hk_lock(&hk_large.lock);
    const struct hk_large_block *large = hk_extents_nearest((uintptr_t)p + 1, HK_LOWER);
    bool holds = large != NULL && (uintptr_t)p - large->d.start < large->d.bytes;
    hk_unlock(&hk_large.lock);
    return holds;
}

bool hk_large_find(uintptr_t address, struct hk_large_extent *found)
{
    if (!hk_large_lock_in_some_tries())
        return false;
    uint64_t version = hk_load(hk_large.xversion);
    const struct hk_large_block *large = hk_extents_nearest(address + 1, HK_LOWER);
    uintptr_t end = large != NULL ? large->d.start + large->d.bytes : 0;
    if (address < end) {
        enum hk_large_use use = hk_link_linked(&large->link) ? HK_LARGE_FREED : HK_LARGE_IN_USE;
        *found = (struct hk_large_extent){use, large->d.start, large->requested, version};
    } else {
        large = hk_extents_nearest(address, HK_HIGHER);
        *found =
            (struct hk_large_extent){HK_LARGE_NONE, end, (large != NULL ? large->d.start : UINTPTR_MAX) - end, version};
    }
    hk_unlock(&hk_large.lock);
    return true;
}
