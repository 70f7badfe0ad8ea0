#include "big/big.h"

#include "base/bits.h"
#include "base/fatal.h"
#include "big/big_mapping.h"
#include "count/reuse.h"
#include "count/stats.h"
#include "os/os.h"
#include "policy/policy.h"
#include "span/footprint.h"

static bool fits(const struct hk_big_block *big, size_t bytes, size_t most)
{
    return big->d.bytes >= bytes && big->d.bytes <= most;
}

static struct hk_big_block *map_new(size_t requested, size_t align)
{
    struct hk_big_block *big = (struct hk_big_block *)(void *)hk_descriptor_new();
    if (big == NULL)
        return NULL;
    big->d.bytes = 0; /* not mapped yet (see hk_big_enter()) */
    size_t bytes = hk_big_in_whole_huge_pages(requested);
    void *p = hk_big_map(bytes, align);
    if (p == NULL && bytes != requested)
        p = hk_big_map(bytes = requested, align);
    if (p == NULL && hk_big_purge(0, 0) > 0)
        p = hk_big_map(bytes, align);
    if (p == NULL) {
        hk_footprint_refused(!hk_footprint_allows(bytes));
        hk_descriptor_drop(&big->d);
        return NULL;
    }
    hk_big_enter(big, (uintptr_t)p, bytes);
    hk_big_advise(big);
    HK_COUNT(big_mapped, 1);
    HK_COUNT(big_fresh, requested);
    hk_lock(&hk_big.lock);
    hk_big_note_if_missed_locked(requested);
    hk_big_index_locked(big);
    hk_big_set_requested_locked(big, requested);
    hk_big.totals.blocks++;
    hk_unlock(&hk_big.lock);
    return big;
}

static void *resize(struct hk_big_block *big, size_t bytes);

/* A cached block, lengthened where it is too short. */
static struct hk_big_block *reuse(size_t bytes, size_t align)
{
    struct hk_big_block *big = hk_big_take_cached(bytes, align);
    if (big == NULL || big->requested == bytes || resize(big, bytes) != NULL)
        return big;
    hk_big_free((void *)big->d.start);
    return NULL;
}

void *hk_big_alloc(size_t size, size_t align, bool *zeroed)
{
    if (size > PTRDIFF_MAX - HK_SLICE || align > PTRDIFF_MAX / 2)
        return NULL;
    size_t bytes = hk_big_bytes_for(size);
    align = hk_max(align, hk_system_page());
    struct hk_big_block *big = reuse(bytes, align);
    *zeroed = big == NULL;
    if (big != NULL)
        HK_COUNT(big_reused, 1);
    else
        big = map_new(bytes, align);
    return big != NULL ? (void *)big->d.start : NULL;
}

/* The block's descriptor. Fatal unless a big block in use begins at `block`. */
static struct hk_big_block *checked_block(enum hk_call call, const void *block)
{
    struct hk_big_block *big = hk_big_at((uintptr_t)block);
    if (big->d.start != (uintptr_t)block)
        hk_invalid_pointer(call, "pointer inside a block", block);
    if (hk_link_linked(&big->link))
        hk_invalid_pointer(call, "block already free", block);
    return big;
}

void hk_big_check(enum hk_call call, const void *block)
{
    hk_lock(&hk_big.lock);
    (void)checked_block(call, block);
    hk_unlock(&hk_big.lock);
}

static struct hk_big_block *retire_locked(void *block)
{
    struct hk_big_block *big = checked_block(HK_CALL_FREE, block);
    if (HK_UNLIKELY(hk_load(hk_big.xunnoted)))
        hk_big_mark_all_locked();
    if (big->requested >= HK_POLICY(huge_blocks_from))
        hk_store(hk_big.xgone, hk_load(hk_big.xgone) + big->requested);
    hk_big_unset_requested_locked(big);
    hk_big.totals.blocks--;
    big->idle_from = hk_age_stamp(hk_reuse_now());
    return big;
}

static void unmap_retired(struct hk_big_block *big)
{
    if (hk_big_unmap(big))
        return;
    hk_lock(&hk_big.lock);
    hk_big_put_back_locked(big);
    hk_unlock(&hk_big.lock);
}

static HK_COLD void unmap_altered(struct hk_big_block *big)
{
    HK_COUNT(big_altered, 1);
    unmap_retired(big);
}

void hk_big_free(void *block)
{
    hk_lock(&hk_big.lock);
    struct hk_big_block *big = retire_locked(block);
    if (HK_UNLIKELY(big->altered)) {
        hk_unlock(&hk_big.lock);
        unmap_altered(big);
        return;
    }
    hk_reuse_idled(big->d.bytes);
    hk_big_put_cached_locked(big);
    bool over = hk_big_over_budget(big, HK_POLICY(big_cache));
    hk_unlock(&hk_big.lock);
    if (over)
        hk_big_hold_to_budget();
}

void hk_big_keep(void *block, uint64_t until_ms)
{
    hk_lock(&hk_big.lock);
    struct hk_big_block *big = retire_locked(block);
    if (HK_UNLIKELY(big->altered)) {
        hk_unlock(&hk_big.lock);
        unmap_altered(big);
        return;
    }
    big->idle_since = until_ms - hk_min(until_ms, HK_POLICY(purge_delay));
    hk_big_keep_cached_locked(big);
    hk_unlock(&hk_big.lock);
    HK_COUNT(big_kept, 1);
    hk_big_hold_to_budget();
}

void hk_big_drop(void *block)
{
    hk_lock(&hk_big.lock);
    struct hk_big_block *big = retire_locked(block);
    hk_unlock(&hk_big.lock);
    HK_COUNT(big_dropped, 1);
    unmap_retired(big);
}

/* Takes the block out of the lists, where a purge or a note of altered memory would find it, while its mapping changes. Returns false if
 * it fits as it is. */
static bool seize_for_change(struct hk_big_block *big, size_t bytes)
{
    hk_lock(&hk_big.lock);
    hk_big_unset_requested_locked(big);
    bool changes = !fits(big, bytes, hk_big_loosest(bytes));
    if (changes)
        hk_extents_remove(&hk_big.extents, big);
    else
        hk_big_set_requested_locked(big, bytes);
    hk_unlock(&hk_big.lock);
    return changes;
}

static void settle_at(struct hk_big_block *big, size_t requested)
{
    hk_lock(&hk_big.lock);
    hk_big_index_locked(big);
    hk_big_set_requested_locked(big, requested);
    hk_unlock(&hk_big.lock);
}

static void *resize(struct hk_big_block *big, size_t bytes)
{
    size_t requested = big->requested;
    if (!seize_for_change(big, bytes))
        return (void *)big->d.start;
    bool done = bytes > big->d.bytes ? hk_big_lengthen(big, bytes) : hk_big_remap_in_place(big, bytes);
    settle_at(big, done ? bytes : requested);
    return done ? (void *)big->d.start : NULL;
}

void *hk_big_resize(void *block, size_t size)
{
    if (size < HK_SLICE || size > PTRDIFF_MAX - HK_SLICE)
        return NULL;
    hk_lock(&hk_big.lock);
    struct hk_big_block *big = checked_block(HK_CALL_REALLOC, block);
    hk_unlock(&hk_big.lock);
    return resize(big, hk_in_system_pages(size));
}

bool hk_big_holds(const void *p)
{
    hk_lock(&hk_big.lock);
    const struct hk_big_block *big = hk_extents_below(&hk_big.extents, (uintptr_t)p + 1);
    bool holds = big != NULL && (uintptr_t)p - big->d.start < big->d.bytes;
    hk_unlock(&hk_big.lock);
    return holds;
}

static struct hk_big_extent extent_at(uintptr_t address)
{
    uint64_t version = hk_load(hk_big.xversion);
    const struct hk_big_block *big = hk_extents_below(&hk_big.extents, address + 1);
    uintptr_t end = big != NULL ? big->d.start + big->d.bytes : 0;
    if (address < end) {
        enum hk_big_use use = hk_link_linked(&big->link) ? HK_BIG_FREED : HK_BIG_IN_USE;
        return (struct hk_big_extent){use, big->d.start, big->requested, version};
    }
    const struct hk_big_block *next = hk_extents_from(&hk_big.extents, address);
    return (struct hk_big_extent){HK_BIG_NONE, end, (next != NULL ? next->d.start : UINTPTR_MAX) - end, version};
}

bool hk_big_find(uintptr_t address, struct hk_big_extent *found)
{
    if (!hk_big_lock_in_some_tries())
        return false;
    *found = extent_at(address);
    hk_unlock(&hk_big.lock);
    return true;
}

size_t hk_big_mapped(void) { return hk_load(hk_footprint.xbig); }
