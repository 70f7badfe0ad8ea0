#include "big/big_mapping.h"

#include "base/bits.h"
#include "os/os.h"
#include "policy/policy.h"
#include "span/footprint.h"
#include "span/thp.h"

enum {
    TIMES_GONE = 4, /* its own size: a buffer like those that come and go */
    WORTH_IF_GONE = 3, /* to round such a buffer up to whole huge pages may add a third, */
    WORTH_AT_ONCE = 16, /* another block a sixteenth */
    BLOCKS_AT_STAKE = 8, /* so many more may turn out to be used here and there, whatever else the heap holds */
};

void hk_big_index_locked(struct hk_slab *slab)
{
    hk_extents_add(&hk_big.extents, slab);
    uintptr_t lowest = hk_load(hk_big.xlowest), end = slab->start + slab->bytes;
    hk_store(hk_big.xlowest, lowest == 0 ? slab->start : hk_min(lowest, slab->start));
    hk_store(hk_big.xhighest, hk_max(hk_load(hk_big.xhighest), end));
}

static void index_again(struct hk_slab *slab)
{
    hk_lock(&hk_big.lock);
    hk_big_index_locked(slab);
    hk_unlock(&hk_big.lock);
}

static void unindex(struct hk_slab *slab)
{
    hk_lock(&hk_big.lock);
    hk_extents_remove(&hk_big.extents, slab);
    hk_unlock(&hk_big.lock);
}

void hk_big_enter(struct hk_slab *slab, uintptr_t start, size_t bytes)
{
    hk_add(hk_footprint.xbig, bytes - slab->bytes);
    slab->start = start;
    slab->bytes = slab->requested = bytes;
    slab->block_size = (uint32_t)hk_min(bytes, UINT32_MAX);
    slab->blocks = 1;
    slab->class = HK_CLASS_BIG;
    hk_page_map_assign(start, 1, hk_entry(HK_NOBODY, HK_CLASS_BIG), slab);
}

static void *map_covered(size_t bytes, size_t align)
{
    void *p = hk_os_map_aligned(bytes, align);
    if (p == NULL || hk_page_map_cover((uintptr_t)p, 1))
        return p;
    hk_os.unmap(p, bytes);
    return NULL;
}

static bool comes_and_goes(size_t bytes) { return hk_load(hk_big.xgone) / TIMES_GONE >= bytes; }

/* A table that is reserved and used here and there costs a huge page where it would cost a small one. */
static bool may_stake_more(void)
{
    size_t staked = hk_load(hk_big.xon_huge_pages) * HK_CHUNK;
    return staked < BLOCKS_AT_STAKE * HK_CHUNK || staked < hk_page_heap_stake();
}

static bool suits_huge_pages(size_t bytes)
{
    uint64_t from = HK_POLICY(huge_blocks_from);
    return from != 0 && bytes >= from && hk_thp_serves() && (comes_and_goes(bytes) || may_stake_more());
}

static bool has_room_for_slack(size_t more)
{
    hk_lock(&hk_big.lock);
    bool room = hk_big.totals.cached + more <= HK_POLICY(big_cache);
    hk_unlock(&hk_big.lock);
    return room && HK_POLICY(purge_delay) != 0;
}

/* What is added is kept for the block to grow into, and cut off when it has not for long. It is to serve the same size again when it
 * has been freed. */
size_t hk_big_in_whole_huge_pages(size_t bytes)
{
    size_t whole = hk_align_up(bytes, HK_CHUNK), added = whole - bytes;
    size_t most = bytes / (comes_and_goes(bytes) ? WORTH_IF_GONE : WORTH_AT_ONCE);
    bool worth = added > 0 && added <= most && whole <= hk_big_loosest(bytes) && suits_huge_pages(bytes);
    return worth && hk_footprint_allows(whole) && has_room_for_slack(added) ? whole : bytes;
}

static bool has_huge_pages(size_t mapped) { return mapped >= HK_CHUNK && suits_huge_pages(mapped); }

static void *map_suited(size_t bytes, size_t align)
{
    void *p = has_huge_pages(bytes) ? map_covered(bytes, hk_max(align, HK_CHUNK)) : NULL;
    return p != NULL ? p : map_covered(bytes, align);
}

void *hk_big_map(size_t bytes, size_t align)
{
    return hk_footprint_allows(bytes) ? map_suited(bytes, align) : NULL;
}

void hk_big_advise(struct hk_slab *slab)
{
    if (slab->huge || !has_huge_pages(slab->bytes) || !hk_os.advise_huge((void *)slab->start, slab->bytes, true))
        return;
    slab->huge = true;
    hk_add(hk_big.xon_huge_pages, 1);
}

/* The page map entry goes before the mapping. What the system will not hk_big_unmap stays cached, without its pages. */
bool hk_big_unmap(struct hk_slab *slab)
{
    uintptr_t start = slab->start;
    uint32_t entry = hk_load(*hk_page_map_entry(start));
    unindex(slab);
    hk_page_map_set(start, 1, 0);
    if (hk_os.unmap((void *)start, slab->bytes)) {
        hk_sub(hk_footprint.xbig, slab->bytes);
        hk_sub(hk_big.xon_huge_pages, slab->huge);
        hk_slab_descriptor_drop(slab);
        return true;
    }
    hk_page_map_set(start, 1, entry);
    index_again(slab);
    hk_os.purge((void *)start, slab->bytes);
    return false;
}

static bool move(struct hk_slab *slab, size_t bytes)
{
    uintptr_t from = slab->start;
    void *to = map_suited(bytes, HK_PAGE);
    if (to == NULL)
        return false;
    hk_page_map_set(from, 1, 0);
    if (!hk_os.remap((void *)from, slab->bytes, bytes, to)) {
        /* `to` is left alone: the kernel may have unmapped it, and it may be somebody else's by now. */
        hk_page_map_set(from, 1, hk_entry(HK_NOBODY, HK_CLASS_BIG));
        return false;
    }
    hk_big_enter(slab, (uintptr_t)to, bytes);
    hk_big_advise(slab);
    return true;
}

bool hk_big_remap_in_place(struct hk_slab *slab, size_t bytes)
{
    if (!hk_os.remap((void *)slab->start, slab->bytes, bytes, NULL))
        return false;
    hk_big_enter(slab, slab->start, bytes);
    hk_big_advise(slab);
    return true;
}

bool hk_big_lengthen(struct hk_slab *slab, size_t bytes)
{
    size_t whole = hk_big_in_whole_huge_pages(bytes);
    if (!hk_footprint_allows(bytes - slab->bytes))
        return false;
    return hk_big_remap_in_place(slab, whole) || (whole != bytes && hk_big_remap_in_place(slab, bytes)) || move(slab, whole);
}
