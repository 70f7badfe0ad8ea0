/* Holds the lists, the totals and the lock of large blocks, and finds the block at an address. */
#include "large/large_state.h"

enum { TRIES_FOR_SIGNALS = 100 }; /* so many tries take longer than any thread holds the lock */

struct hk_large hk_large = {.lock = HK_LOCK_INIT(HK_RANK_LARGE)};

void hk_large_init(void)
{
    hk_lock_register(HK_RANK_LARGE, &hk_large.lock);
    hk_list_init(&hk_large.cached);
    hk_list_init(&hk_large.kept);
    hk_list_init(&hk_large.pending_unmap);
    hk_large.sorted = &hk_large.cached.head;
    hk_large.room_unsorted = HK_LARGE_MOST_UNSORTED;
    hk_list_init(&hk_large.with_slack);
}

struct hk_large_totals hk_large_total(void) { return HK_UNDER(&hk_large.lock, hk_large.totals); }

bool hk_large_lock_in_some_tries(void)
{
    if (HK_DEBUG && !hk_lock_is_in_order(HK_RANK_LARGE)) /* a signal handler interrupted a holder of a later lock */
        return false;
    for (int i = 0; i < TRIES_FOR_SIGNALS; i++) {
        if (hk_try_lock(&hk_large.lock))
            return true;
        HK_SPIN_HINT();
    }
    return false;
}

/* Returns a hash of the block's address. Mappings often lie at equal distances. Multiplication by the golden ratio spreads them. */
static uint64_t rank_of(const struct hk_large_block *large)
{
    uint64_t mixed = large->d.start * UINT64_C(0x9e3779b97f4a7c15);
    return mixed ^ mixed >> 32;
}

/* Returns the link that points to the block, or the link at which the block would be inserted. */
static struct hk_large_block **where(const struct hk_large_block *large)
{
    struct hk_large_block **place = &hk_large.extents;
    uint64_t rank = rank_of(large);
    for (struct hk_large_block *at; (at = *place) != NULL && at != large && rank_of(at) >= rank;)
        place = &at->child[at->d.start < large->d.start ? HK_HIGHER : HK_LOWER];
    return place;
}

void hk_extents_add(struct hk_large_block *large)
{
    struct hk_large_block **place = where(large), *rest = *place, **open[] = {&large->child[0], &large->child[1]};
    for (*place = large; rest != NULL;) {
        unsigned side = rest->d.start < large->d.start ? HK_LOWER : HK_HIGHER;
        *open[side] = rest;
        open[side] = &rest->child[!side];
        rest = *open[side];
    }
    *open[HK_LOWER] = *open[HK_HIGHER] = NULL;
    uintptr_t lowest = hk_load(hk_large.xlowest), end = large->d.start + large->d.bytes;
    hk_store(hk_large.xlowest, lowest == 0 ? large->d.start : hk_min(lowest, large->d.start));
    hk_store(hk_large.xhighest, hk_max(hk_load(hk_large.xhighest), end));
}

void hk_extents_remove(struct hk_large_block *large)
{
    struct hk_large_block **place = where(large), *halves[] = {large->child[0], large->child[1]};
    while (halves[HK_LOWER] != NULL && halves[HK_HIGHER] != NULL) {
        unsigned side = rank_of(halves[HK_LOWER]) >= rank_of(halves[HK_HIGHER]) ? HK_LOWER : HK_HIGHER;
        *place = halves[side];
        place = &halves[side]->child[!side];
        halves[side] = *place;
    }
    *place = halves[HK_LOWER] != NULL ? halves[HK_LOWER] : halves[HK_HIGHER];
}

struct hk_large_block *hk_extents_nearest(uintptr_t address, enum hk_side side)
{
    struct hk_large_block *nearest = NULL;
    for (struct hk_large_block *large = hk_large.extents; large != NULL;) {
        enum hk_side of_large = large->d.start < address ? HK_LOWER : HK_HIGHER;
        if (of_large == side)
            nearest = large;
        large = large->child[!of_large];
    }
    return nearest;
}
