#include "big/extents.h"

enum { LOWER, HIGHER };

/* Addresses of mappings lie in rows: multiplied by the golden ratio, they do not. */
static uint64_t rank_of(const struct hk_slab *slab)
{
    uint64_t mixed = slab->start * UINT64_C(0x9e3779b97f4a7c15);
    return mixed ^ mixed >> 32;
}

/* Where the slab hangs, or would. */
static struct hk_slab **where(struct hk_extents *extents, const struct hk_slab *slab)
{
    struct hk_slab **place = &extents->root;
    uint64_t rank = rank_of(slab);
    for (struct hk_slab *at; (at = *place) != NULL && at != slab && rank_of(at) >= rank;)
        place = &at->child[at->start < slab->start ? HIGHER : LOWER];
    return place;
}

void hk_extents_add(struct hk_extents *extents, struct hk_slab *slab)
{
    struct hk_slab **place = where(extents, slab);
    struct hk_slab *rest = *place, **lower = &slab->child[LOWER], **higher = &slab->child[HIGHER];
    *place = slab;
    while (rest != NULL)
        if (rest->start < slab->start) {
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

void hk_extents_remove(struct hk_extents *extents, struct hk_slab *slab)
{
    struct hk_slab **place = where(extents, slab);
    struct hk_slab *lower = slab->child[LOWER], *higher = slab->child[HIGHER];
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

struct hk_slab *hk_extents_below(const struct hk_extents *extents, uintptr_t end)
{
    struct hk_slab *last = NULL;
    for (struct hk_slab *slab = extents->root; slab != NULL;)
        if (slab->start < end) {
            last = slab;
            slab = slab->child[HIGHER];
        } else
            slab = slab->child[LOWER];
    return last;
}
