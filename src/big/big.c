#include "big/big.h"

#include "base/bits.h"
#include "base/fatal.h"
#include "big/big_cache.h"
#include "big/big_mapping.h"
#include "big/big_state.h"
#include "count/reuse.h"
#include "count/stats.h"
#include "os/os.h"
#include "policy/policy.h"
#include "span/footprint.h"

struct hk_big hk_big = {.lock = HK_LOCK_INIT(HK_RANK_BIG)};

void hk_big_init(void)
{
    hk_lock_register(HK_RANK_BIG, &hk_big.lock);
    hk_list_init(&hk_big.cached);
    hk_list_init(&hk_big.kept);
    hk_list_init(&hk_big.spoiled);
    hk_big.sorted = &hk_big.cached.head;
    hk_big.room_unsorted = HK_BIG_MOST_UNSORTED;
    hk_list_init(&hk_big.spares);
}

static bool fits(const struct hk_slab *slab, size_t bytes, size_t most) { return slab->bytes >= bytes && slab->bytes <= most; }

static struct hk_slab *map_new(size_t requested, size_t align)
{
    struct hk_slab *slab = hk_slab_descriptor();
    if (slab == NULL)
        return NULL;
    slab->bytes = 0;
    slab->altered = slab->huge = false;
    size_t bytes = hk_big_in_whole_huge_pages(requested);
    void *p = hk_big_map(bytes, align);
    if (p == NULL && bytes != requested)
        p = hk_big_map(bytes = requested, align);
    if (p == NULL && hk_big_purge(0, 0) > 0)
        p = hk_big_map(bytes, align);
    if (p == NULL) {
        hk_footprint_refused(!hk_footprint_allows(bytes));
        hk_slab_descriptor_drop(slab);
        return NULL;
    }
    hk_big_enter(slab, (uintptr_t)p, bytes);
    hk_big_advise(slab);
    HK_COUNT(big_mapped, 1);
    HK_COUNT(big_fresh, requested);
    hk_lock(&hk_big.lock);
    hk_big_note_if_missed_locked(requested);
    hk_big_index_locked(slab);
    hk_big_set_requested_locked(slab, requested);
    hk_big.totals.blocks++;
    hk_unlock(&hk_big.lock);
    return slab;
}

static void *resize(struct hk_slab *slab, size_t bytes);

/* A cached block whose pages are used again, longer by what it lacks. */
static struct hk_slab *reuse(size_t bytes, size_t align)
{
    struct hk_slab *slab = hk_big_take_cached(bytes, align);
    if (slab == NULL || slab->requested == bytes || resize(slab, bytes) != NULL)
        return slab;
    hk_big_free((void *)slab->start);
    return NULL;
}

void *hk_big_alloc(size_t size, size_t align, bool *zeroed)
{
    if (size > PTRDIFF_MAX - HK_SLICE || align > PTRDIFF_MAX / 2)
        return NULL;
    size_t bytes = hk_align_up(hk_max(size, HK_SLICE), HK_PAGE);
    align = hk_max(align, HK_PAGE);
    struct hk_slab *slab = reuse(bytes, align);
    *zeroed = slab == NULL;
    if (slab != NULL)
        HK_COUNT(big_reused, 1);
    else
        slab = map_new(bytes, align);
    return slab != NULL ? (void *)slab->start : NULL;
}

/* The block's slab; fatal unless `block` is where a big block in use begins. */
static struct hk_slab *checked_slab(enum hk_call call, const void *block)
{
    struct hk_slab *slab = hk_slab_at((uintptr_t)block);
    if (slab->start != (uintptr_t)block)
        hk_slab_invalid(call, "pointer inside a block", block);
    if (hk_link_linked(&slab->link))
        hk_slab_invalid(call, "block already free", block);
    return slab;
}

void hk_big_check(enum hk_call call, const void *block)
{
    hk_lock(&hk_big.lock);
    (void)checked_slab(call, block);
    hk_unlock(&hk_big.lock);
}

static struct hk_slab *retire_locked(void *block)
{
    struct hk_slab *slab = checked_slab(HK_CALL_FREE, block);
    if (HK_UNLIKELY(hk_load(hk_big.xunnoted)))
        hk_big_mark_all_locked();
    if (slab->requested >= HK_POLICY(huge_blocks_from))
        hk_store(hk_big.xgone, hk_load(hk_big.xgone) + slab->requested);
    hk_big_unset_requested_locked(slab);
    hk_big.totals.blocks--;
    slab->idle_from = hk_age_stamp(hk_reuse_now());
    return slab;
}

static void unmap_retired(struct hk_slab *slab)
{
    if (hk_big_unmap(slab))
        return;
    hk_lock(&hk_big.lock);
    hk_big_put_back_locked(slab);
    hk_unlock(&hk_big.lock);
}

static HK_COLD void unmap_altered(struct hk_slab *slab)
{
    HK_COUNT(big_altered, 1);
    unmap_retired(slab);
}

void hk_big_free(void *block)
{
    hk_lock(&hk_big.lock);
    struct hk_slab *slab = retire_locked(block);
    if (HK_UNLIKELY(slab->altered)) {
        hk_unlock(&hk_big.lock);
        unmap_altered(slab);
        return;
    }
    hk_reuse_idled(slab->bytes);
    hk_big_put_cached_locked(slab);
    bool over = hk_big_over_budget(slab, HK_POLICY(big_cache));
    hk_unlock(&hk_big.lock);
    if (over)
        hk_big_hold_to_budget();
}

void hk_big_keep(void *block, uint64_t until_ms)
{
    hk_lock(&hk_big.lock);
    struct hk_slab *slab = retire_locked(block);
    if (HK_UNLIKELY(slab->altered)) {
        hk_unlock(&hk_big.lock);
        unmap_altered(slab);
        return;
    }
    slab->idle_since = until_ms - hk_min(until_ms, HK_POLICY(purge_delay));
    hk_big_keep_cached_locked(slab);
    hk_unlock(&hk_big.lock);
    HK_COUNT(big_kept, 1);
    hk_big_hold_to_budget();
}

void hk_big_drop(void *block)
{
    hk_lock(&hk_big.lock);
    struct hk_slab *slab = retire_locked(block);
    hk_unlock(&hk_big.lock);
    HK_COUNT(big_dropped, 1);
    unmap_retired(slab);
}

/* Out of reach of the purge, and of who notes changes, while its mapping changes. False if it need not: it fits as it is. */
static bool seize_for_change(struct hk_slab *slab, size_t bytes)
{
    hk_lock(&hk_big.lock);
    hk_big_unset_requested_locked(slab);
    bool changes = !fits(slab, bytes, hk_big_loosest(bytes));
    if (changes)
        hk_extents_remove(&hk_big.extents, slab);
    else
        hk_big_set_requested_locked(slab, bytes);
    hk_unlock(&hk_big.lock);
    return changes;
}

static void settle_at(struct hk_slab *slab, size_t requested)
{
    hk_lock(&hk_big.lock);
    hk_big_index_locked(slab);
    hk_big_set_requested_locked(slab, requested);
    hk_unlock(&hk_big.lock);
}

static void *resize(struct hk_slab *slab, size_t bytes)
{
    size_t requested = slab->requested;
    if (!seize_for_change(slab, bytes))
        return (void *)slab->start;
    bool done = bytes > slab->bytes ? hk_big_lengthen(slab, bytes) : hk_big_remap_in_place(slab, bytes);
    settle_at(slab, done ? bytes : requested);
    return done ? (void *)slab->start : NULL;
}

void *hk_big_resize(void *block, size_t size)
{
    if (size < HK_SLICE || size > PTRDIFF_MAX - HK_SLICE)
        return NULL;
    hk_lock(&hk_big.lock);
    struct hk_slab *slab = checked_slab(HK_CALL_REALLOC, block);
    hk_unlock(&hk_big.lock);
    return resize(slab, hk_align_up(size, HK_PAGE));
}

bool hk_big_holds(const void *p)
{
    hk_lock(&hk_big.lock);
    const struct hk_slab *slab = hk_extents_below(&hk_big.extents, (uintptr_t)p + 1);
    bool holds = slab != NULL && (uintptr_t)p - slab->start < slab->bytes;
    hk_unlock(&hk_big.lock);
    return holds;
}

size_t hk_big_mapped(void) { return hk_load(hk_footprint.xbig); }

void hk_big_total(struct hk_big_totals *totals)
{
    hk_lock(&hk_big.lock);
    *totals = hk_big.totals;
    hk_unlock(&hk_big.lock);
}
