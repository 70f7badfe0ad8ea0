#include "slab/owner.h"

#include "base/fatal.h"
#include "base/lock.h"
#include "span/meta.h"

/* What an inbox says that holds nothing. Zeros say that it is closed: as which an owner reads whose memory was given back. */
#define CLOSED ((struct hk_parcel *)NULL)
#define NOTHING ((struct hk_parcel *)1)

_Atomic int64_t hk_remote_blocks[HK_CLASSES];

/* Owners that most programs never have more of: no page of the tables is touched for them. */
enum { FIRST_OWNERS = 32, OWNERS_IN_PART = 1024, PARTS = 1024 };

static struct {
    struct hk_lock lock;
    _Atomic uint32_t xend;
    struct hk_owner *first[FIRST_OWNERS];
} owners = {.lock = HK_LOCK_INIT(HK_RANK_OWNERS), .xend = HK_FIRST_OWNER};

/* By number, for those that follow. */
static struct hk_owner **more_owners[PARTS] HK_COLD_DATA;

static struct {
    struct hk_lock lock;
    struct hk_parcel *unused;
    size_t made;
} parcels = {.lock = HK_LOCK_INIT(HK_RANK_PARCELS)};

static struct hk_owner **entry(uint32_t id)
{
    return id < FIRST_OWNERS ? &owners.first[id] : &more_owners[id / OWNERS_IN_PART][id % OWNERS_IN_PART];
}

static bool has_entry(uint32_t id)
{
    if (id < FIRST_OWNERS || id / OWNERS_IN_PART >= PARTS)
        return id < FIRST_OWNERS;
    struct hk_owner ***part = &more_owners[id / OWNERS_IN_PART];
    if (*part == NULL)
        *part = hk_meta_alloc(OWNERS_IN_PART * sizeof **part);
    return *part != NULL;
}

/* The bits of few owners are static; they are there before a number is given. */
enum { SLICE_OWNERS = 8192, SLICES = OWNERS_IN_PART * PARTS / SLICE_OWNERS };
static struct hk_owner_bits first_bits[SLICE_OWNERS / 64] HK_COLD_DATA, *more_bits[SLICES] HK_COLD_DATA;
static _Atomic bool xany_rests;

static bool has_bits(uint32_t id)
{
    struct hk_owner_bits **slice = &more_bits[id / SLICE_OWNERS];
    if (id >= SLICE_OWNERS && *slice == NULL)
        *slice = hk_meta_alloc(sizeof first_bits);
    return id < SLICE_OWNERS || *slice != NULL;
}

struct hk_owner_bits *hk_owner_bits(uint32_t id)
{
    struct hk_owner_bits *slice = id < SLICE_OWNERS ? first_bits : more_bits[id / SLICE_OWNERS];
    return &slice[id % SLICE_OWNERS / 64];
}

void hk_owners_rest(uint32_t first, uint64_t bits)
{
    atomic_fetch_or_explicit(&hk_owner_bits(first)->xresting, bits, memory_order_relaxed);
    hk_store(xany_rests, true);
}

void hk_owners_rouse(uint32_t first, uint64_t bits)
{
    atomic_fetch_and_explicit(&hk_owner_bits(first)->xresting, ~bits, memory_order_release);
}

bool hk_owner_rests(uint32_t id) { return hk_owner_next(id) != id; }

static void begin_life(struct hk_owner *owner, uint32_t id)
{
    owner->id = id;
    owner->shelves_lock.rank = HK_RANK_SHELVES;
    owner->drain_lock.rank = HK_RANK_DRAIN;
}

void hk_owner_wake(struct hk_owner *owner, uint32_t id)
{
    begin_life(owner, id);
    hk_owners_rouse(id / 64 * 64, (uint64_t)1 << id % 64);
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
    uint32_t id = hk_load(owners.xend);
    bool room = has_entry(id) && has_bits(id);
    if (room) {
        begin_life(owner, id);
        *entry(id) = owner;
        hk_store_release(owners.xend, id + 1);
    }
    hk_unlock(&owners.lock);
    return room;
}

void hk_owner_open(struct hk_owner *owner)
{
    hk_shelves_hold(owner);
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        hk_list_init(&owner->shelves[class].partial);
        hk_list_init(&owner->shelves[class].full);
        owner->shelves[class].slabs = 0;
        hk_inbox_open(owner, class);
    }
    owner->sweep.at = NULL;
    owner->sweep_class = owner->sweep_left = 0;
    owner->sweep_pays = false;
    owner->open = true;
    hk_shelves_leave(owner);
}

bool hk_owner_is_open(struct hk_owner *owner)
{
    hk_shelves_hold(owner);
    bool open = owner->open;
    hk_shelves_leave(owner);
    return open;
}

uint32_t hk_owner_end(void) { return hk_load_acquire(owners.xend); }
struct hk_owner *hk_owner_by_id(uint32_t id) { return *entry(id); }

struct hk_parcel *hk_parcel_new(void)
{
    hk_lock(&parcels.lock);
    struct hk_parcel *parcel = parcels.unused;
    if (parcel != NULL)
        parcels.unused = parcel->next;
    else if ((parcel = hk_meta_alloc(sizeof *parcel)) != NULL)
        parcels.made++;
    hk_unlock(&parcels.lock);
    if (parcel != NULL)
        parcel->count = 0;
    return parcel;
}

void hk_parcel_drop(struct hk_parcel *parcel)
{
    hk_lock(&parcels.lock);
    parcel->next = parcels.unused;
    parcels.unused = parcel;
    hk_unlock(&parcels.lock);
}

size_t hk_parcels_bytes(void)
{
    hk_lock(&parcels.lock);
    size_t bytes = parcels.made * sizeof(struct hk_parcel);
    hk_unlock(&parcels.lock);
    return bytes;
}

bool hk_inbox_post(struct hk_owner *owner, struct hk_parcel *parcel)
{
    _Atomic(struct hk_parcel *) *inbox = &owner->xinbox[parcel->class];
    struct hk_parcel *head = hk_load(*inbox);
    unsigned parcel_class = parcel->class;
    uint32_t blocks = hk_parcel_blocks(parcel);
    uint64_t bit = (uint64_t)1 << parcel_class;
    do {
        if (head == CLOSED)
            return false;
        parcel->next = head == NOTHING ? NULL : head;
    } while (!atomic_compare_exchange_weak_explicit(inbox, &head, parcel, memory_order_release, memory_order_relaxed));
    if (head == NOTHING)
        atomic_fetch_or_explicit(&owner->xpending, bit, memory_order_release);
    hk_add(hk_remote_blocks[parcel_class], blocks);
    return true;
}

/* The parcels that came last, in front of those taken before. */
static void prepend(struct hk_parcel **backlog, struct hk_parcel *chain)
{
    struct hk_parcel *last = chain;
    while (last->next != NULL)
        last = last->next;
    last->next = *backlog;
    *backlog = chain;
}

static void take_inbox(struct hk_owner *owner, unsigned class)
{
    /* The bit goes first: a parcel that comes in between sets it again. */
    atomic_fetch_and_explicit(&owner->xpending, ~((uint64_t)1 << class), memory_order_acquire);
    if (hk_load(owner->xinbox[class]) == CLOSED)
        return;
    struct hk_parcel *chain = atomic_exchange_explicit(&owner->xinbox[class], NOTHING, memory_order_acquire);
    owner->backlog[class] = chain != NOTHING ? chain : NULL;
}

static struct hk_parcel *take_locked(struct hk_owner *owner, unsigned class, unsigned most)
{
    if (owner->backlog[class] == NULL)
        take_inbox(owner, class);
    struct hk_parcel *first = owner->backlog[class], *last = first;
    if (first == NULL)
        return NULL;
    for (; most > 1 && last->next != NULL; most--)
        last = last->next;
    owner->backlog[class] = last->next;
    last->next = NULL;
    if (owner->backlog[class] != NULL)
        atomic_fetch_or_explicit(&owner->xpending, (uint64_t)1 << class, memory_order_relaxed);
    return first;
}

static bool is_pending(struct hk_owner *owner, unsigned class) { return (hk_load(owner->xpending) >> class & 1) != 0; }

struct hk_parcel *hk_inbox_take(struct hk_owner *owner, unsigned class, unsigned most)
{
    if (!is_pending(owner, class))
        return NULL;
    hk_lock(&owner->drain_lock);
    struct hk_parcel *chain = take_locked(owner, class, most);
    hk_unlock(&owner->drain_lock);
    return chain;
}

struct hk_parcel *hk_inbox_steal(struct hk_owner *owner, unsigned class, unsigned most, uint64_t asleep_since)
{
    if (!is_pending(owner, class) || hk_load(owner->xawake) > asleep_since || !hk_try_lock(&owner->drain_lock))
        return NULL;
    struct hk_parcel *chain = take_locked(owner, class, most);
    hk_unlock(&owner->drain_lock);
    return chain;
}

static void close_locked(struct hk_owner *owner, unsigned class)
{
    struct hk_parcel *rest = atomic_exchange_explicit(&owner->xinbox[class], CLOSED, memory_order_acquire);
    if (rest == CLOSED || rest == NOTHING)
        return;
    prepend(&owner->backlog[class], rest);
    atomic_fetch_or_explicit(&owner->xpending, (uint64_t)1 << class, memory_order_relaxed);
}

/* Under the lock even where nothing has come: a thief that has seen an inbox open is done with it before it closes. */
void hk_inboxes_close(struct hk_owner *owner)
{
    hk_lock(&owner->drain_lock);
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        close_locked(owner, class);
    hk_unlock(&owner->drain_lock);
}

void hk_inbox_forget(struct hk_owner *owner, unsigned class)
{
    hk_store(owner->xinbox[class], CLOSED);
    owner->backlog[class] = NULL;
}

void hk_remote_recount(const struct hk_owner *survivor)
{
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        int64_t blocks = 0;
        const struct hk_parcel *parcel = survivor != NULL ? survivor->backlog[class] : NULL;
        for (; parcel != NULL; parcel = parcel->next)
            blocks += hk_parcel_blocks(parcel);
        hk_store(hk_remote_blocks[class], blocks);
    }
}

void hk_inbox_open(struct hk_owner *owner, unsigned class) { hk_store_release(owner->xinbox[class], NOTHING); }

void hk_owners_fork_prepare(struct hk_owner *self)
{
    hk_lock(&owners.lock);
    if (self != NULL)
        hk_lock(&self->drain_lock);
    hk_lock(&parcels.lock);
}

void hk_owners_fork_parent(struct hk_owner *self)
{
    hk_unlock(&parcels.lock);
    if (self != NULL)
        hk_unlock(&self->drain_lock);
    hk_unlock(&owners.lock);
}

/* Threads that were cut off may have held locks, and their shelves may be cut too. */
static void close_all_but(const struct hk_owner *survivor)
{
    for (uint32_t id = hk_owner_next(HK_FIRST_OWNER); id < hk_owner_end(); id = hk_owner_next(id + 1)) {
        struct hk_owner *owner = hk_owner_by_id(id);
        hk_store(owner->drain_lock.xstate, 0);
        if (hk_options.background == 0)
            continue;
        hk_store(owner->shelves_lock.xstate, 0);
        owner->open = owner == survivor;
    }
}

void hk_owners_fork_child(struct hk_owner *self)
{
    hk_lock_reset(&parcels.lock);
    if (self != NULL)
        hk_lock_reset(&self->drain_lock);
    close_all_but(self);
    hk_lock_reset(&owners.lock);
}
