/* Walks over an owner's slabs to purge pages without live blocks, within a work budget or all at once. */
#include "slab/slab_heap_sweep.h"

#include "slab/remote.h"
#include "slab/slab_heap.h"

/* A caller that locks again at once lets the owner go first. */
static void leave_in_turn(struct hk_owner *owner)
{
    if (hk_slab_lists_shared)
        hk_unlock_in_turn(&owner->slab_lists_lock);
}

/* Trims slabs of the current class, one system call at most. Returns false when all of the class are trimmed. */
static bool trim_in_class(struct hk_owner *owner, struct hk_trim *trim)
{
    size_t calls = trim->calls;
    for (int looks = 0; trim->calls == calls && looks < HK_LOOKS_OF_HOLD; looks++) {
        struct hk_slab *slab = hk_slab_heap_partial(owner, trim->class);
        if (slab == NULL || hk_slab_is_trimmed(slab, trim))
            return false;
        if (hk_slab_all_free(slab)) {
            hk_slab_heap_release(owner, slab);
        } else if (hk_slab_trim(slab, trim)) {
            hk_link_remove_under(&slab->link, &owner->sweep);
            hk_list_push_back(&owner->slab_lists[trim->class].partial, &slab->link);
        }
    }
    return true;
}

bool hk_slab_heap_trim_some(struct hk_owner *owner, struct hk_trim *trim)
{
    hk_slab_lists_lock(owner);
    while (owner->open && trim->class < HK_CLASSES && !trim_in_class(owner, trim))
        trim->class ++; /* the class made no system call */
    bool more = owner->open && trim->class < HK_CLASSES;
    leave_in_turn(owner);
    return more;
}

size_t hk_slab_heap_trim(struct hk_owner *owner)
{
    struct hk_trim trim = hk_trim_begin();
    while (hk_slab_heap_trim_some(owner, &trim))
        continue;
    return trim.bytes;
}

void hk_slab_heap_sweep_begin(struct hk_owner *owner)
{
    hk_slab_lists_lock(owner);
    if (owner->sweep_left == 0 && owner->open)
        owner->sweep_left = HK_CLASSES;
    hk_slab_lists_unlock(owner);
}

void hk_slab_heap_sweep_for_growth(struct hk_owner *owner)
{
    hk_slab_lists_lock(owner);
    if (owner->open) {
        owner->sweep_left = HK_CLASSES;
        owner->sweep_reclaims = true;
    }
    hk_slab_lists_unlock(owner);
}

/* Counts the free blocks of the slab that the sweep visits next, once. */
HK_INLINE void count_free(struct hk_owner *owner)
{
    if (owner->sweep.within == 0)
        owner->swept_free += hk_container_of(owner->sweep.at, struct hk_slab, link)->free;
}

static bool sweep_on(struct hk_owner *owner, struct hk_sweep *sweep)
{
    sweep->reclaims = owner->sweep_reclaims;
    for (; owner->sweep_left > 0; owner->sweep_left--) {
        struct hk_list *partial = &owner->slab_lists[owner->sweep_class].partial;
        if (owner->sweep.at == NULL) {
            owner->sweep = (struct hk_walk){.at = partial->head.next};
            owner->swept_free = 0;
        }
        while (owner->sweep.at != &partial->head) {
            if (sweep->work <= 0)
                return false;
            count_free(owner);
            hk_slab_sweep_under(&owner->sweep, partial, sweep);
        }
        owner->sweep.at = NULL;
        owner->slab_lists[owner->sweep_class].free = owner->swept_free;
        owner->sweep_class = (owner->sweep_class + 1) % HK_CLASSES;
    }
    owner->sweep_reclaims = false;
    return true;
}

static bool sweep_held(struct hk_owner *owner, struct hk_sweep *sweep)
{
    hk_slab_lists_lock(owner);
    bool over = !owner->open || sweep_on(owner, sweep);
    leave_in_turn(owner);
    return over;
}

/* Where the lists are shared, other threads get their turn after each system call. */
bool hk_slab_heap_sweep(struct hk_owner *owner, struct hk_sweep *sweep)
{
    if (!hk_slab_lists_shared)
        return sweep_held(owner, sweep);
    bool over = false;
    while (!over && sweep->work > 0) {
        int64_t rest = hk_sweep_hold(sweep);
        over = sweep_held(owner, sweep);
        sweep->work += rest;
    }
    return over;
}
