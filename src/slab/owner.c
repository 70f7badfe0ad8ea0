/* Gives numbers to owners, and keeps their lists and inboxes. */
#include "slab/owner.h"
#include "span/meta.h"

/* An inbox without slabs has one of these two values. CLOSED is 0, because a purged owner is all zeros and must have closed inboxes. */
#define CLOSED ((struct hk_slab *)NULL)
#define EMPTY ((struct hk_slab *)1)

/* Has cache lines of its own, because all threads write to it. The variables beside it are only read while threads run. */
_Atomic int32_t hk_queued_slabs[HK_CLASSES] HK_ALIGNED(HK_CACHE_LINE);
_Static_assert(sizeof hk_queued_slabs % HK_CACHE_LINE == 0, "no other variable shares its last line");

bool hk_slab_lists_shared;
struct hk_lock hk_sweep_lock = HK_LOCK_INIT(HK_RANK_SWEEP);

/* A part of the table of owners: 64 owners and their flags. Most programs have no owner above number 63, and so touch no page of more_parts. */
struct owners_part {
    struct hk_owner *owners[64];
    struct hk_owner_bits bits;
};
enum { OWNERS_IN_PART = 64, PARTS = HK_OWNERS_END / OWNERS_IN_PART };
_Static_assert(OWNERS_IN_PART *PARTS <= HK_ENTRY_MIXED >> HK_ENTRY_OWNER_SHIFT, "each number fits into an entry");

static struct {
    struct hk_lock lock;
    _Atomic uint32_t xend;
    struct owners_part first;
} owners = {.lock = HK_LOCK_INIT(HK_RANK_OWNERS), .xend = HK_FIRST_OWNER};

static struct owners_part *more_parts[PARTS] HK_COLD_DATA; /* the parts after the first one, by number */
static _Atomic bool xany_rests;
const uintptr_t hk_owners_layout[] = {(uintptr_t)owners.first.owners, (uintptr_t)more_parts, OWNERS_IN_PART};

static struct owners_part *part_of(uint32_t id)
{
    return id < OWNERS_IN_PART ? &owners.first : more_parts[id / OWNERS_IN_PART];
}

struct hk_owner_bits *hk_owner_bits(uint32_t id) { return &part_of(id)->bits; }

void hk_owners_rest(uint32_t first, uint64_t bits)
{
    atomic_fetch_or_explicit(&hk_owner_bits(first)->xresting, bits, memory_order_relaxed);
    hk_store(xany_rests, true);
    if (hk_slab_lists_shared) { /* waits for the background thread, which may be sweeping slabs of one of these owners */
        hk_lock(&hk_sweep_lock);
        hk_unlock(&hk_sweep_lock);
    }
}

void hk_owners_wake(uint32_t first, uint64_t bits)
{
    atomic_fetch_and_explicit(&hk_owner_bits(first)->xresting, ~bits, memory_order_release);
}

bool hk_owner_rests(uint32_t id) { return hk_owner_next(id) != id; }

static void begin_life(struct hk_owner *owner, uint32_t id)
{
    owner->id = id;
    owner->slab_lists_lock.rank = HK_RANK_SLAB_LISTS;
    owner->drain_lock.rank = HK_RANK_DRAIN;
}

void hk_owner_wake(struct hk_owner *owner, uint32_t id)
{
    begin_life(owner, id);
    hk_owners_wake(id / 64 * 64, (uint64_t)1 << id % 64);
}

uint32_t hk_owner_next(uint32_t from)
{
    if (HK_LIKELY(!hk_load(xany_rests)))
        return from;
    uint32_t end = hk_owner_end();
    for (; from < end; from = (from | 63) + 1) {
        uint64_t awake = ~hk_load_acquire(hk_owner_bits(from)->xresting) >> (from % 64);
        if (awake != 0)
            return from + hk_ctz64(awake);
    }
    return end;
}

bool hk_owner_register(struct hk_owner *owner)
{
    hk_lock(&owners.lock);
    uint32_t id = hk_load(owners.xend), part = id / OWNERS_IN_PART;
    if (part != 0 && part < PARTS && more_parts[part] == NULL)
        more_parts[part] = hk_meta_alloc(sizeof(struct owners_part));
    bool room = part < PARTS && part_of(id) != NULL;
    if (room) {
        begin_life(owner, id);
        part_of(id)->owners[id % OWNERS_IN_PART] = owner;
        hk_store_release(owners.xend, id + 1);
    }
    hk_unlock(&owners.lock);
    return room;
}

void hk_owner_open(struct hk_owner *owner)
{
    hk_slab_lists_lock(owner);
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        hk_list_init(&owner->slab_lists[class].partial);
        hk_list_init(&owner->slab_lists[class].full);
        owner->slab_lists[class].slabs = 0;
        hk_store_release(owner->xinbox[class], EMPTY);
    }
    owner->slabs = 0;
    owner->drift = (struct hk_drift){0};
    owner->sweep.at = NULL;
    owner->sweep_class = owner->sweep_left = 0;
    owner->sweep_why = HK_SWEEP_AGED;
    owner->next_victim = HK_FIRST_OWNER;
    hk_store(owner->xunused, 0);
    hk_store(owner->xopen, true);
    hk_slab_lists_unlock(owner);
}

uint32_t hk_owner_end(void) { return hk_load_acquire(owners.xend); }
struct hk_owner *hk_owner_by_id(uint32_t id) { return part_of(id)->owners[id % OWNERS_IN_PART]; }

bool hk_inbox_push(struct hk_owner *owner, struct hk_slab *slab)
{
    unsigned class = slab->d.class; /* read now, because a queued slab may be released at any time */
    _Atomic(struct hk_slab *) *inbox = &owner->xinbox[class];
    struct hk_slab *head = hk_load(*inbox);
    do {
        if (head == CLOSED)
            return false;
        hk_store(slab->xnext, head == EMPTY ? NULL : head);
    } while (!atomic_compare_exchange_weak_explicit(inbox, &head, slab, memory_order_release, memory_order_relaxed));
    if (head == EMPTY)
        atomic_fetch_or_explicit(&owner->xpending, (uint64_t)1 << class, memory_order_release);
    hk_add(hk_queued_slabs[class], 1);
    return true;
}

static void take_inbox(struct hk_owner *owner, unsigned class)
{
    /* Clears the bit before it empties the inbox. In the opposite order, a bit that another thread sets in between would be lost. */
    atomic_fetch_and_explicit(&owner->xpending, ~((uint64_t)1 << class), memory_order_acquire);
    if (hk_load(owner->xinbox[class]) == CLOSED)
        return;
    struct hk_slab *chain = atomic_exchange_explicit(&owner->xinbox[class], EMPTY, memory_order_acquire);
    owner->backlog[class] = chain != EMPTY ? chain : NULL;
}

static struct hk_slab *take_locked(struct hk_owner *owner, unsigned class, unsigned most)
{
    if (owner->backlog[class] == NULL)
        take_inbox(owner, class);
    struct hk_slab *first = owner->backlog[class], *last = first;
    if (first == NULL)
        return NULL;
    unsigned taken = 1;
    for (; taken < most && hk_inbox_next(last) != NULL; taken++)
        last = hk_inbox_next(last);
    owner->backlog[class] = hk_inbox_next(last);
    hk_store(last->xnext, NULL);
    hk_sub(hk_queued_slabs[class], taken);
    if (owner->backlog[class] != NULL)
        atomic_fetch_or_explicit(&owner->xpending, (uint64_t)1 << class, memory_order_relaxed);
    return first;
}

static bool is_pending(struct hk_owner *owner, unsigned class) { return (hk_load(owner->xpending) >> class & 1) != 0; }

struct hk_slab *hk_inbox_take(struct hk_owner *owner, unsigned class, unsigned most)
{
    return is_pending(owner, class) ? HK_UNDER(&owner->drain_lock, take_locked(owner, class, most)) : NULL;
}

struct hk_slab *hk_inbox_steal(struct hk_owner *owner, unsigned class, unsigned most, uint64_t asleep_since, bool *last)
{
    if (!is_pending(owner, class) || hk_load(owner->xawake) > asleep_since || !hk_try_lock(&owner->drain_lock))
        return NULL;
    struct hk_slab *chain = take_locked(owner, class, most);
    *last = owner->backlog[class] == NULL;
    hk_unlock(&owner->drain_lock);
    return chain;
}

/* Takes the lock even if the inboxes are empty. Another thread may have seen an open inbox, and may be stealing slabs from it under this lock. */
void hk_inboxes_close(struct hk_owner *owner)
{
    hk_lock(&owner->drain_lock);
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        struct hk_slab *rest = atomic_exchange_explicit(&owner->xinbox[class], CLOSED, memory_order_acquire);
        if (rest == CLOSED || rest == EMPTY)
            continue;
        struct hk_slab *last = rest;
        while (hk_inbox_next(last) != NULL)
            last = hk_inbox_next(last);
        hk_store(last->xnext, owner->backlog[class]); /* the slabs of the inbox go to the front of the backlog */
        owner->backlog[class] = rest;
        atomic_fetch_or_explicit(&owner->xpending, (uint64_t)1 << class, memory_order_relaxed);
    }
    hk_unlock(&owner->drain_lock);
}

void hk_owners_init(void)
{
    hk_lock_register(HK_RANK_OWNERS, &owners.lock);
    hk_lock_register(HK_RANK_SWEEP, &hk_sweep_lock);
}

/* The child lacks the threads that held the locks. Writes only fields that must change, because a fork child copies each page that it writes to. */
void hk_owners_fork_child(const struct hk_owner *self)
{
    for (uint32_t id = hk_owner_next(HK_FIRST_OWNER); id < hk_owner_end(); id = hk_owner_next(id + 1)) {
        struct hk_owner *owner = hk_owner_by_id(id);
        hk_store(owner->drain_lock.xstate, 0);
        struct hk_slab *inbox = owner == self ? EMPTY : CLOSED;
        for (unsigned class = 0; class < HK_CLASSES; class ++) {
            if (hk_load(owner->xinbox[class]) != inbox)
                hk_store(owner->xinbox[class], inbox);
            if (owner->backlog[class] != NULL)
                owner->backlog[class] = NULL;
        }
        if (hk_load(owner->xpending) != 0)
            hk_store(owner->xpending, 0);
        if (hk_slab_lists_shared)
            hk_store(owner->slab_lists_lock.xstate, 0);
        if (hk_load(owner->xopen) != (owner == self))
            hk_store(owner->xopen, owner == self);
    }
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        hk_store(hk_queued_slabs[class], 0);
}
