#include "slab/registry.h"

#include "base/fatal.h"
#include "base/lock.h"

static struct entry {
    struct hk_lock lock;
    struct hk_list partial;
} registry[HK_CLASSES];

void hk_registry_init(void)
{
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        registry[class].lock.rank = HK_RANK_REGISTRY;
        hk_list_init(&registry[class].partial);
    }
}

static void set_owner(struct hk_slab *slab, uint32_t owner)
{
    hk_map_route_all(slab->start, slab->bytes / HK_UNIT, hk_route(owner, slab->class));
}

static bool is_orphan(const struct hk_slab *slab)
{
    return hk_route_owner(hk_load(*hk_map_route(slab->start))) == HK_ORPHAN;
}

/* True if the slab has to be released, by the caller, outside the lock. */
static bool list_orphan_locked(struct entry *entry, struct hk_slab *slab)
{
    bool all_free = slab->free == slab->blocks;
    if (all_free && hk_link_linked(&slab->link))
        hk_link_remove(&slab->link);
    else if (!all_free && slab->free > 0 && !hk_link_linked(&slab->link))
        hk_list_push_back(&entry->partial, &slab->link);
    return all_free;
}

void hk_registry_abandon(struct hk_slab *slab)
{
    struct entry *entry = &registry[slab->class];
    hk_lock(&entry->lock);
    set_owner(slab, HK_ORPHAN);
    bool all_free = list_orphan_locked(entry, slab);
    hk_unlock(&entry->lock);
    if (all_free)
        hk_slab_release(slab);
    else
        HK_COUNT(slabs_abandoned, 1);
}

static void become_owner_locked(struct hk_slab *slab, struct hk_owner *owner)
{
    if (hk_link_linked(&slab->link))
        hk_link_remove(&slab->link);
    set_owner(slab, owner->id);
    HK_COUNT(slabs_adopted, 1);
}

struct hk_slab *hk_registry_adopt(unsigned class, struct hk_owner *owner)
{
    struct entry *entry = &registry[class];
    if (hk_list_looks_empty(&entry->partial))
        return NULL;
    hk_lock(&entry->lock);
    struct hk_link *first = hk_list_first(&entry->partial);
    struct hk_slab *slab = first != NULL ? hk_container_of(first, struct hk_slab, link) : NULL;
    if (slab != NULL)
        become_owner_locked(slab, owner);
    hk_unlock(&entry->lock);
    return slab;
}

struct hk_slab *hk_registry_claim(void *block, unsigned class, struct hk_owner *owner)
{
    struct entry *entry = &registry[class];
    hk_lock(&entry->lock);
    struct hk_slab *slab = hk_slab_at((uintptr_t)block);
    bool orphan = is_orphan(slab);
    if (orphan)
        become_owner_locked(slab, owner);
    hk_unlock(&entry->lock);
    return orphan ? slab : NULL;
}

bool hk_registry_free(void *block, unsigned class)
{
    struct entry *entry = &registry[class];
    bool all_free = false;
    hk_lock(&entry->lock);
    struct hk_slab *slab = hk_slab_at((uintptr_t)block);
    bool orphan = is_orphan(slab);
    if (orphan) {
        hk_slab_give(slab, block);
        all_free = list_orphan_locked(entry, slab);
    }
    hk_unlock(&entry->lock);
    if (all_free)
        hk_slab_release(slab);
    return orphan;
}

void *hk_registry_alloc(unsigned class)
{
    struct entry *entry = &registry[class];
    void *block = NULL;
    hk_lock(&entry->lock);
    struct hk_link *first = hk_list_first(&entry->partial);
    struct hk_slab *slab = first != NULL ? hk_container_of(first, struct hk_slab, link) : hk_slab_make(class, HK_ORPHAN, HK_USE_SPARSE);
    if (slab != NULL) {
        hk_slab_take(slab, &block + 1, 1);
        if (slab->free == 0 && hk_link_linked(&slab->link))
            hk_link_remove(&slab->link);
        else if (slab->free > 0 && !hk_link_linked(&slab->link))
            hk_list_push_front(&entry->partial, &slab->link);
    }
    hk_unlock(&entry->lock);
    if (block != NULL)
        HK_COUNT(orphan_calls, 1);
    return block;
}

void hk_registry_fork_prepare(void)
{
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        hk_lock(&registry[class].lock);
}

void hk_registry_fork_parent(void)
{
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        hk_unlock(&registry[class].lock);
}

void hk_registry_fork_child(void)
{
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        hk_lock_reset(&registry[class].lock);
}

/* The lists of the other threads may have been cut in the middle of a change: only routes and bitmaps are believed. */
void hk_registry_orphan_rest(uint32_t survivor)
{
    uint32_t count = hk_load(hk_slab_table.xcount);
    for (uint32_t number = 0; number < count; number++) {
        struct hk_slab *slab = &hk_slab_table.base[number];
        if (slab->start == 0 || slab->class >= HK_CLASSES || hk_load(*hk_map_slab(slab->start)) != number)
            continue;
        uint32_t owner = hk_route_owner(hk_load(*hk_map_route(slab->start)));
        if (owner < HK_FIRST_OWNER || owner == survivor)
            continue;
        slab->link.next = slab->link.prev = NULL;
        hk_slab_recount(slab);
        hk_registry_abandon(slab);
    }
}
