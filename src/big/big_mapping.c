#include "big/big_mapping.h"

#include "base/bits.h"
#include "os/os.h"
#include "policy/policy.h"
#include "span/footprint.h"
#include "span/page_heap.h"
#include "span/thp.h"

enum {
    TIMES_GONE = 4,      /* a block is one of many if the blocks freed so far have so many times its size */
    WORTH_IF_GONE = 3,   /* whole huge pages may add a third to one of many, */
    WORTH_AT_ONCE = 16,  /* and a sixteenth to another block */
    BLOCKS_AT_STAKE = 8, /* so many may turn out to be used in a few places only, however small the heap is */
};

void hk_big_index_locked(struct hk_big_block *big)
{
    hk_extents_add(&hk_big.extents, big);
    uintptr_t lowest = hk_load(hk_big.xlowest), end = big->d.start + big->d.bytes;
    hk_store(hk_big.xlowest, lowest == 0 ? big->d.start : hk_min(lowest, big->d.start));
    hk_store(hk_big.xhighest, hk_max(hk_load(hk_big.xhighest), end));
}

static void index_again(struct hk_big_block *big)
{
    hk_lock(&hk_big.lock);
    hk_big_index_locked(big);
    hk_unlock(&hk_big.lock);
}

static void unindex(struct hk_big_block *big)
{
    hk_lock(&hk_big.lock);
    hk_extents_remove(&hk_big.extents, big);
    hk_unlock(&hk_big.lock);
}

void hk_big_enter(struct hk_big_block *big, uintptr_t start, size_t bytes)
{
    hk_add(hk_footprint.xbig, bytes - big->d.bytes);
    big->d.start = start;
    big->d.bytes = big->requested = bytes;
    big->d.block_size = (uint32_t)hk_min(bytes, UINT32_MAX);
    big->d.blocks = 1;
    big->d.class = HK_CLASS_BIG;
    hk_page_map_assign(start, 1, hk_entry(HK_NOBODY, HK_CLASS_BIG), &big->d);
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

/* A big block that the program touches in a few places costs a huge page for each place. True while the bytes at that risk are
 * below the limit. */
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

/* The added bytes are slack. A purge cuts them off if the block does not grow into them. The mapping must still serve the same request
 * after it was freed. */
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

void *hk_big_map(size_t bytes, size_t align) { return hk_footprint_allows(bytes) ? map_suited(bytes, align) : NULL; }

void hk_big_advise(struct hk_big_block *big)
{
    if (big->huge || !has_huge_pages(big->d.bytes) || !hk_os.advise_huge((void *)big->d.start, big->d.bytes, true))
        return;
    big->huge = true;
    hk_add(hk_big.xon_huge_pages, 1);
}

bool hk_big_unmap(struct hk_big_block *big)
{
    uintptr_t start = big->d.start;
    uint32_t entry = hk_load(*hk_page_map_entry(start));
    unindex(big);
    hk_page_map_set(start, 1, 0);
    if (hk_os.unmap((void *)start, big->d.bytes)) {
        hk_sub(hk_footprint.xbig, big->d.bytes);
        hk_sub(hk_big.xon_huge_pages, big->huge);
        hk_descriptor_drop(&big->d);
        return true;
    }
    hk_page_map_set(start, 1, entry);
    index_again(big);
    hk_os.purge((void *)start, big->d.bytes);
    return false;
}

static bool move(struct hk_big_block *big, size_t bytes)
{
    uintptr_t from = big->d.start;
    void *to = map_suited(bytes, hk_system_page());
    if (to == NULL)
        return false;
    hk_page_map_set(from, 1, 0);
    if (!hk_os.remap((void *)from, big->d.bytes, bytes, to)) {
        /* `to` is not unmapped: the kernel may have done so, and another mapping may lie there by now. */
        hk_page_map_set(from, 1, hk_entry(HK_NOBODY, HK_CLASS_BIG));
        return false;
    }
    hk_big_enter(big, (uintptr_t)to, bytes);
    hk_big_advise(big);
    return true;
}

bool hk_big_remap_in_place(struct hk_big_block *big, size_t bytes)
{
    if (!hk_os.remap((void *)big->d.start, big->d.bytes, bytes, NULL))
        return false;
    hk_big_enter(big, big->d.start, bytes);
    hk_big_advise(big);
    return true;
}

bool hk_big_lengthen(struct hk_big_block *big, size_t bytes)
{
    size_t whole = hk_big_in_whole_huge_pages(bytes);
    if (!hk_footprint_allows(bytes - big->d.bytes))
        return false;
    return hk_big_remap_in_place(big, whole) || (whole != bytes && hk_big_remap_in_place(big, bytes)) ||
           move(big, whole);
}
