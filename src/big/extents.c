#include "big/extents.h"

enum { LOWER, HIGHER };

/* Mappings lie at regular distances; a multiplication by the golden ratio scatters them. */
static uint64_t rank_of(const struct hk_big_block *big)
{
    uint64_t mixed = big->d.start * UINT64_C(0x9e3779b97f4a7c15);
    return mixed ^ mixed >> 32;
}

/* The pointer that leads to the block, or would. */
static struct hk_big_block **where(struct hk_extents *extents, const struct hk_big_block *big)
{
    struct hk_big_block **place = &extents->root;
    uint64_t rank = rank_of(big);
    for (struct hk_big_block *at; (at = *place) != NULL && at != big && rank_of(at) >= rank;)
        place = &at->child[at->d.start < big->d.start ? HIGHER : LOWER];
    return place;
}

void hk_extents_add(struct hk_extents *extents, struct hk_big_block *big)
{
    struct hk_big_block **place = where(extents, big);
    struct hk_big_block *rest = *place, **lower = &big->child[LOWER], **higher = &big->child[HIGHER];
    *place = big;
    while (rest != NULL)
        if (rest->d.start < big->d.start) {
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

void hk_extents_remove(struct hk_extents *extents, struct hk_big_block *big)
{
    struct hk_big_block **place = where(extents, big);
    struct hk_big_block *lower = big->child[LOWER], *higher = big->child[HIGHER];
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

struct hk_big_block *hk_extents_below(const struct hk_extents *extents, uintptr_t end)
{
    struct hk_big_block *last = NULL;
    for (struct hk_big_block *big = extents->root; big != NULL;)
        if (big->d.start < end) {
            last = big;
            big = big->child[HIGHER];
        } else
            big = big->child[LOWER];
    return last;
}

struct hk_big_block *hk_extents_from(const struct hk_extents *extents, uintptr_t start)
{
    struct hk_big_block *first = NULL;
    for (struct hk_big_block *big = extents->root; big != NULL;)
        if (big->d.start >= start) {
            first = big;
            big = big->child[LOWER];
        } else
            big = big->child[HIGHER];
    return first;
}
