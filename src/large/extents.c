/* Keeps the mappings of large blocks in a treap. */
#include "large/extents.h"

enum { LOWER, HIGHER };

/* Mappings lie at regular distances; a multiplication by the golden ratio scatters them. */
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
