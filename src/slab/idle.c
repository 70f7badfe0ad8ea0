/* Purges pages without live blocks in an owner's slabs. Also purges pages of remote frees if their slab has waited in an inbox for a while. */
#include "policy/policy.h"
#include "slab/outbox.h"
#include "slab/slab_heap.h"
#include "span/page_heap.h"

static void leave_in_turn(struct hk_owner *owner)
{
    if (hk_slab_lists_shared)
        hk_unlock_in_turn(&owner->slab_lists_lock);
}

/* Trims slabs of trim->class. Makes at most one system call. Returns false when all slabs of this class are trimmed. */
static bool trim_in_class(struct hk_owner *owner, struct hk_trim *trim)
{
    size_t calls = trim->calls;
    for (int looks = 0; trim->calls == calls && looks < HK_LOOKS_OF_HOLD; looks++) {
        struct hk_slab *slab = hk_slab_heap_partial(owner, trim->class);
        if (slab == NULL || hk_slab_is_trimmed(slab, trim))
            return false;
        if (hk_slab_all_free(slab))
            hk_slab_heap_release(owner, slab);
        else if (hk_slab_trim(slab, trim))
            hk_list_move_to_back(&owner->slab_lists[trim->class].partial, &slab->link, &owner->sweep);
    }
    return true;
}

bool hk_slab_heap_trim_some(struct hk_owner *owner, struct hk_trim *trim)
{
    hk_slab_lists_lock(owner);
    while (hk_load(owner->xopen) && trim->class < HK_CLASSES && !trim_in_class(owner, trim))
        trim->class ++; /* the class is trimmed, and trim_in_class() made no system call */
    bool more = hk_load(owner->xopen) && trim->class < HK_CLASSES;
    leave_in_turn(owner);
    return more;
}

void hk_slab_heap_sweep_begin(struct hk_owner *owner, enum hk_sweep_why why)
{
    hk_slab_lists_lock(owner);
    if (hk_load(owner->xopen) && (owner->sweep_left == 0 || why != HK_SWEEP_AGED)) {
        owner->sweep_left = HK_CLASSES;
        owner->sweep_why = why;
    }
    hk_slab_lists_unlock(owner);
}

static bool sweep_on(struct hk_owner *owner, struct hk_sweep *sweep)
{
    sweep->why = owner->sweep_why;
    for (; owner->sweep_left > 0; owner->sweep_left--) {
        struct hk_list *partial = &owner->slab_lists[owner->sweep_class].partial;
        if (owner->sweep.at == NULL) {
            owner->sweep = (struct hk_walk){.at = partial->head.next};
            owner->swept_free = 0;
            uint64_t bit = (uint64_t)1 << owner->sweep_class, others = hk_load(owner->xunused) & ~bit;
            hk_store(owner->xunused, others | (hk_slab_heap_is_unused(owner, owner->sweep_class) ? bit : 0));
        }
        while (owner->sweep.at != &partial->head) {
            if (sweep->work <= 0)
                return false;
            if (owner->sweep.within == 0) /* counts the free blocks only at the first visit to the slab */
                owner->swept_free += hk_container_of(owner->sweep.at, struct hk_slab, link)->free;
            hk_slab_sweep_under(&owner->sweep, partial, sweep);
        }
        owner->sweep.at = NULL;
        owner->slab_lists[owner->sweep_class].free = owner->swept_free;
        owner->sweep_class = (owner->sweep_class + 1) % HK_CLASSES;
    }
    owner->sweep_why = HK_SWEEP_AGED;
    return true;
}

bool hk_slab_heap_sweep(struct hk_owner *owner, struct hk_sweep *sweep)
{
    bool over;
    do {
        int64_t rest = hk_slab_lists_shared ? hk_sweep_hold(sweep) : 0;
        hk_slab_lists_lock(owner);
        over = !hk_load(owner->xopen) || sweep_on(owner, sweep);
        leave_in_turn(owner);
        sweep->work += rest;
    } while (hk_slab_lists_shared && !over && sweep->work > 0);
    return over;
}

static _Atomic uint32_t xnext_owner = HK_FIRST_OWNER; /* the owner at which the sweep continues */

/* Purges the pages of blocks that were freed remotely. Holds the lock while blocks are claimed, because a fork child would lose them. Claims
 * them for one system call at a time, because fork waits for the lock. */
static void purge_slab(struct hk_slab *slab, struct hk_sweep *sweep)
{
    size_t bytes = 0;
    unsigned within = 0;
    for (bool more = true; more;) {
        uint64_t bits[HK_SLAB_MOST_WORDS] = {0};
        hk_lock(&hk_sweep_lock);
        hk_remote_claim(slab, bits);
        more = hk_slab_purge_claimed(slab, bits, &within, &bytes);
        hk_remote_put_back(slab, bits);
        hk_unlock_in_turn(&hk_sweep_lock);
        sweep->work -= more ? HK_WORK_OF_CALL : 0;
    }
    hk_remote_note_clean(slab, bytes);
}

/* Returns true if the slab has unpurged remote blocks, and their number has not changed for the purge delay. A reclaiming sweep needs no delay. */
static bool lies_idle(struct hk_slab *slab, struct hk_sweep *sweep)
{
    int blocks = hk_remote_blocks(slab);
    sweep->work--;
    if (blocks <= 0)
        return false;
    if (slab->seen_remote != (unsigned)blocks) {
        slab->seen_remote = (unsigned)blocks;
        slab->seen_at = hk_age_stamp(sweep->touched);
    } else if (slab->purged_remote != 0) {
        return false;
    }
    bool due = hk_age_since(slab->seen_at, sweep->now) >= HK_POLICY(purge_delay);
    sweep->waits |= !due && sweep->why == HK_SWEEP_AGED;
    return due || sweep->why != HK_SWEEP_AGED;
}

/* Returns true if the slab does not lie on a huge page, or if enough of the huge page is free or consists of remote blocks. */
static bool worth_its_split(const struct hk_slab *slab)
{
    size_t free;
    if (!hk_page_heap_on_huge_page(slab->d.start, &free))
        return true;
    uintptr_t chunk = hk_align_down(slab->d.start, HK_CHUNK);
    for (uintptr_t at = chunk; at < chunk + HK_CHUNK; at += HK_SLICE) {
        uint32_t entry = hk_page_map_lookup(at);
        unsigned class = hk_entry_class(entry);
        if (hk_entry_owner(entry) < HK_FIRST_OWNER || class >= HK_CLASSES)
            continue;
        int blocks = hk_remote_blocks(hk_slab_at(at));
        free += blocks > 0 ? (unsigned)blocks * hk_classes[class].size * HK_SLICE / hk_classes[class].slab_bytes : 0;
    }
    return free >= HK_CHUNK / HK_PART_WORTH_A_SPLIT;
}

/* Visits each slab in the inbox of a class once, and purges the slab's remote blocks if they lie idle. */
static void visit_inbox(struct hk_owner *owner, unsigned class, struct hk_sweep *sweep)
{
    bool last = false;
    while (!last && sweep->work > 0) {
        struct hk_slab *slab = hk_inbox_steal(owner, class, 1, UINT64_MAX, &last);
        if (slab == NULL)
            return;
        if (lies_idle(slab, sweep) && (sweep->why != HK_SWEEP_AGED || worth_its_split(slab)))
            purge_slab(slab, sweep);
        hk_send(slab);
    }
}

/* Visits the inboxes of the owners from `id` on. Returns the owner at which the next call continues. If the budget ends during the visit to an owner,
 * the next call continues at this owner, because the slabs that were not visited are in the owner's backlog. */
static uint32_t visit_owners(uint32_t id, struct hk_sweep *sweep)
{
    while ((id = hk_owner_next(id)) < hk_owner_end() && sweep->work-- > 0) {
        struct hk_owner *owner = hk_owner_by_id(id);
        for (uint64_t left = hk_load(owner->xpending); left != 0 && sweep->work > 0; left &= left - 1)
            visit_inbox(owner, hk_ctz64(left), sweep);
        id += sweep->work > 0;
    }
    return id;
}

bool hk_idle_inboxes_sweep(struct hk_sweep *sweep)
{
    uint32_t id = visit_owners(hk_load(xnext_owner), sweep);
    bool over = id >= hk_owner_end();
    hk_store(xnext_owner, over ? HK_FIRST_OWNER : id);
    return over;
}

void hk_idle_inboxes_purge(void)
{
    visit_owners(HK_FIRST_OWNER, &(struct hk_sweep){.work = INT64_MAX, .why = HK_SWEEP_GROWTH});
}
