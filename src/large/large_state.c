/* Holds the lists, the totals and the lock of large blocks, and keeps their mappings in a treap. */
#include "large/large_state.h"

enum { LOWER, HIGHER };
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

void hk_large_total(struct hk_large_totals *totals)
{
    hk_lock(&hk_large.lock);
    *totals = hk_large.totals;
    hk_unlock(&hk_large.lock);
}

bool hk_large_lock_in_some_tries(void)
{
    if (HK_DEBUG && !hk_lock_is_in_order(HK_RANK_LARGE)) /* the signal came while this thread held a later lock */
        return false;
    for (int i = 0; i < TRIES_FOR_SIGNALS; i++) {
        if (hk_try_lock(&hk_large.lock))
            return true;
        HK_SPIN_HINT();
    }
    return false;
}

/* Returns a hash of the block's address. Multiplies by the golden ratio, because mappings often lie at regular distances. */
static uint64_t rank_of(const struct hk_large_block *large)
{
    uint64_t mixed = large->d.start * UINT64_C(0x9e3779b97f4a7c15);
    return mixed ^ mixed >> 32;
}

/* Returns the link that points to the block, or the link at which the block would be inserted. */
static struct hk_large_block **where(struct hk_extents *extents, const struct hk_large_block *large)
{
    struct hk_large_block **place = &extents->root;
    uint64_t rank = rank_of(large);
    for (struct hk_large_block *at; (at = *place) != NULL && at != large && rank_of(at) >= rank;)
        place = &at->child[at->d.start < large->d.start ? HIGHER : LOWER];
    return place;
}

void hk_extents_add(struct hk_extents *extents, struct hk_large_block *large)
{
    struct hk_large_block **place = where(extents, large);
    struct hk_large_block *rest = *place, **lower = &large->child[LOWER], **higher = &large->child[HIGHER];
    *place = large;
    while (rest != NULL)
        if (rest->d.start < large->d.start) {
            *lower = rest;
            lower = &rest->child[HIGHER];
            rest = *lower;
        } else {
            *higher = rest;
            higher = &rest->child[LOWER];
            rest = *higher;
        }
    *lower = *higher = NULL;
}

void hk_extents_remove(struct hk_extents *extents, struct hk_large_block *large)
{
    struct hk_large_block **place = where(extents, large);
    struct hk_large_block *lower = large->child[LOWER], *higher = large->child[HIGHER];
    while (lower != NULL && higher != NULL)
        if (rank_of(lower) >= rank_of(higher)) {
            *place = lower;
            place = &lower->child[HIGHER];
            lower = *place;
        } else {
            *place = higher;
            place = &higher->child[LOWER];
            higher = *place;
        }
    *place = lower != NULL ? lower : higher;
}

struct hk_large_block *hk_extents_below(const struct hk_extents *extents, uintptr_t end)
{
    struct hk_large_block *last = NULL;
    for (struct hk_large_block *large = extents->root; large != NULL;)
        if (large->d.start < end) {
            last = large;
            large = large->child[HIGHER];
        } else
            large = large->child[LOWER];
    return last;
}

struct hk_large_block *hk_extents_from(const struct hk_extents *extents, uintptr_t start)
{
    struct hk_large_block *first = NULL;
    for (struct hk_large_block *large = extents->root; large != NULL;)
        if (large->d.start >= start) {
            first = large;
            large = large->child[LOWER];
        } else
            large = large->child[HIGHER];
    return first;
}
