/* Takes blocks from an owner's slabs, frees blocks to these slabs, and decides when a slab is made or released. */
#include "slab/slab_heap.h"
#include "policy/policy.h"
#include "slab/joined_blocks.h"
#include "slab/abandoned.h"
#include "slab/outbox.h"
#include "slab/remote_track.h"
#include "span/page_heap.h"

enum {
    SLABS_OF_A_HEAP = 16, /* an owner that has fewer slabs, of all classes together, may be a short-lived thread */
    OWNERS_PER_SLAB = 8,  /* owners that a thread looks at before it makes a slab */
    PART_OF_SPARSE = 8,   /* a slab is sparse if at least an eighth of its blocks are free */
};
/* The limits of joining (see joined_blocks.h). A joined block has at least LEAST_JOINED bytes, because smaller requests fill the holes of their own
 * class. A joined block has at most LARGEST_JOINED bytes, because longer rows of free blocks cover whole pages, which can be purged. */
enum { LEAST_JOINED = 48, SMALLEST_CELL = 16, LARGEST_JOINED = HK_JOINED_MOST_CELLS * SMALLEST_CELL };
enum { LOOKS_FOR_ROOMS = 16, SLABS_UNTIL_NEXT_TRY = 8, PART_THAT_FADES = 5 };
enum { PART_OF_ALL = 6, PART_OF_GROWTH = 4, POINTS_OF_SIGN = 2, MOST_POINTS = 6 };
#define JOIN_FROM (32 * HK_MIB)
#define LEAST_FREE (2 * HK_MIB)

static void place(struct hk_owner *owner, struct hk_slab *slab)
{
    struct hk_slab_list *list_of_class = &owner->slab_lists[slab->d.class];
    hk_list_push_front(slab->free > 0 ? &list_of_class->partial : &list_of_class->full, &slab->link);
}

static void move_between_lists(struct hk_owner *owner, struct hk_slab *slab)
{
    hk_link_remove_under(&slab->link, &owner->sweep);
    place(owner, slab);
}

static void enter_slab(struct hk_owner *owner, struct hk_slab *slab)
{
    owner->slab_lists[slab->d.class].slabs++;
    owner->slabs++;
    place(owner, slab);
}

void hk_slab_heap_enter(struct hk_owner *owner, struct hk_slab *slab)
{
    hk_slab_lists_lock(owner);
    enter_slab(owner, slab);
    hk_slab_lists_unlock(owner);
}

static void leave_list_of_class(struct hk_owner *owner, struct hk_slab *slab)
{
    owner->slab_lists[slab->d.class].slabs--;
    owner->slabs--;
    hk_link_remove_under(&slab->link, &owner->sweep);
}

void hk_slab_heap_release(struct hk_owner *owner, struct hk_slab *slab)
{
    leave_list_of_class(owner, slab);
    size_t resident = HK_SLAB_SIXTEENTHS - (size_t)hk_popcount64(slab->clean);
    hk_store(owner->xreleased, hk_load(owner->xreleased) + slab->d.bytes / HK_SLAB_SIXTEENTHS * resident);
    hk_slab_release(slab);
}

/* Returns how the program will probably use the pages of a new slab. A class of small blocks that has filled one slab will fill the next slab too. If
 * the class has SLABS_OF_A_HEAP slabs, one more may be made resident at once, because it adds at most a sixteenth to the class's memory. */
static enum hk_use expected_use(const struct hk_owner *owner, unsigned class)
{
    bool small = hk_classes[class].size <= HK_TOUCHED_WHOLE;
    uint32_t slabs = owner->slab_lists[class].slabs;
    if (owner->slabs < SLABS_OF_A_HEAP || (small && slabs == 0))
        return HK_USE_SPARSE;
    return !small ? HK_USE_UNSURE : slabs < SLABS_OF_A_HEAP ? HK_USE_DENSE : HK_USE_GROWING;
}

/* Returns true if more than 2 MiB and more than 1/5 of the bytes of the class's slabs are free. The program then seems to request the class less. */
static bool class_fades(const struct hk_owner *owner, unsigned class)
{
    size_t free = (size_t)owner->slab_lists[class].free * hk_classes[class].size,
           all = owner->slab_lists[class].slabs * (size_t)hk_classes[class].slab_bytes;
    return free > LEAST_FREE && free * PART_THAT_FADES > all;
}

/* Returns true if the slab may have room for joined blocks. Returns false if a search for so many cells failed and few blocks were freed since, or if
 * half of the slab is purged. Also returns false if blocks were allocated in the slab since the last sweep, unless the slab has joined blocks. */
static bool has_rooms(const struct hk_slab *slab, unsigned cells)
{
    bool fades = slab->pages != HK_PAGES_TAKEN || slab->mixed;
    bool tried =
        slab->tried_cells != 0 && slab->tried_cells <= cells && slab->free < slab->tried_free + slab->d.blocks / 32;
    return fades && !tried && slab->free >= cells && hk_popcount64(slab->clean) < HK_SLAB_SIXTEENTHS / 2;
}

/* Enters an adopted slab into the lists. If `adopted` is NULL, makes a slab. Returns NULL if the system refuses memory. */
HK_INLINE struct hk_slab *enter_or_make(struct hk_owner *owner, unsigned class, struct hk_slab *adopted)
{
    owner->source = adopted != NULL ? HK_SOURCE_ADOPTED : HK_SOURCE_NEW;
    struct hk_slab *slab = adopted != NULL ? adopted : hk_slab_make(class, owner->id, expected_use(owner, class));
    if (slab != NULL)
        enter_slab(owner, slab);
    return slab;
}

static unsigned join_in(struct hk_owner *owner, struct hk_slab *slab, unsigned cells, void **end, unsigned want)
{
    struct hk_slab_list *list_of_class = &owner->slab_lists[slab->d.class];
    unsigned got = hk_joined_take(slab, cells, end, want);
    hk_track_give_out(slab, end - got, got, cells);
    list_of_class->free -= (uint32_t)hk_min(list_of_class->free, got * cells); /* an estimate until the next sweep */
    slab->tried_cells = got < want ? (uint16_t)cells : 0;
    slab->tried_free = slab->free;
    if (slab->free == 0)
        move_between_lists(owner, slab);
    else if (got < want)
        hk_list_move_to_back(&list_of_class->partial, &slab->link, &owner->sweep);
    return got;
}

static unsigned join_with(struct hk_owner *owner, unsigned host, unsigned cells, void **end, unsigned want)
{
    struct hk_list *partial = &owner->slab_lists[host].partial;
    unsigned got = 0, looks = 0;
    for (struct hk_link *link = partial->head.next, *next;
         link != &partial->head && got < want && looks < LOOKS_FOR_ROOMS; link = next, looks++) {
        struct hk_slab *slab = hk_container_of(link, struct hk_slab, link);
        next = link->next;
        if (has_rooms(slab, cells))
            got += join_in(owner, slab, cells, end - got, want - got);
        else if (slab->mixed)
            hk_list_move_to_back(partial, &slab->link, &owner->sweep);
    }
    return got;
}

/* Looks for the sign of a drift, which is that the free bytes in classes without requests have increased by more than a quarter of the growth of the
 * slabs, and are more than a sixth of the slabs' bytes. A class is one without requests if no block was taken from its next slab since the last
 * sweep. The smallest class always counts as one, because joined blocks use it. */
static void look_for_drift(struct hk_owner *owner)
{
    struct hk_drift *last = &owner->drift, now = {.slabs = owner->slabs, .points = last->points};
    for (unsigned class = 0; hk_classes[class].size <= LARGEST_JOINED; class ++) {
        const struct hk_slab_list *list = &owner->slab_lists[class];
        const struct hk_slab *next = hk_slab_heap_partial(owner, class);
        now.bytes += list->slabs * (size_t)hk_classes[class].slab_bytes;
        if (next != NULL && (class == hk_class_of(SMALLEST_CELL) || next->pages != HK_PAGES_TAKEN))
            now.idle += (size_t)list->free * hk_classes[class].size;
    }
    bool sign = last->slabs > 0 && now.bytes > last->bytes &&
                now.idle > last->idle + (now.bytes - last->bytes) / PART_OF_GROWTH &&
                now.idle > now.bytes / PART_OF_ALL;
    now.points = sign ? (unsigned)hk_min(now.points + POINTS_OF_SIGN, MOST_POINTS) : now.points - (now.points > 0);
    *last = now;
}

/* Returns true if the program's block sizes drift, which means that one class after another is requested no longer. A new phase of a program gives the
 * sign of a drift once. A drift gives it repeatedly. Some looks miss it, because the numbers of free blocks are those of the last sweep. */
static bool sizes_drift(struct hk_owner *owner)
{
    uint32_t slabs = owner->drift.slabs;
    if (owner->slabs > slabs + slabs / 8 || owner->slabs < slabs / 2 || owner->drift.made > slabs / 8)
        look_for_drift(owner);
    return owner->drift.points > POINTS_OF_SIGN;
}

/* Allocates joined blocks in a new or adopted slab of the smallest class. After they are freed, their cells can be joined for every other size. */
static unsigned join_smallest(struct hk_owner *owner, unsigned class, void **end, unsigned want)
{
    unsigned host = hk_class_of(SMALLEST_CELL);
    struct hk_slab *slab = enter_or_make(owner, host, hk_abandoned_adopt(host, owner));
    owner->drift.made++;
    return slab != NULL ? join_in(owner, slab, hk_classes[class].size / SMALLEST_CELL, end, want) : 0;
}

bool hk_slab_heap_joins = true;

/* Allocates blocks of the class by joining free blocks of smaller classes. Thus a large heap uses the free blocks of fading classes before it grows.
 * Tries the largest of the smaller classes first. Returns the number of joined blocks. */
static HK_NOINLINE unsigned join_blocks(struct hk_owner *owner, unsigned class, void **end, unsigned want)
{
    size_t size = hk_classes[class].size;
    unsigned got = 0;
    if (size < LEAST_JOINED || size > LARGEST_JOINED || !hk_slab_heap_joins)
        return 0;
    bool waits = owner->join_waits[class] > 0;
    for (unsigned host = class; host-- > 0 && got < want && !waits;) {
        size_t cell = hk_classes[host].size, cells = (size + cell - 1) / cell;
        if (hk_class_that_fits(cells * cell) == class && class_fades(owner, host))
            got += join_with(owner, host, (unsigned)cells, end - got, want - got);
    }
    if (got > 0)
        return got;
    owner->join_waits[class] = waits ? owner->join_waits[class] - 1 : SLABS_UNTIL_NEXT_TRY;
    return sizes_drift(owner) ? join_smallest(owner, class, end, want) : 0;
}

static HK_NOINLINE unsigned take_blocks(struct hk_owner *owner, unsigned class, void **end, unsigned want)
{
    unsigned got = 0;
    while (got < want) {
        struct hk_slab *slab = hk_slab_heap_partial(owner, class);
        if (slab == NULL && got == 0) {
            slab = hk_abandoned_adopt(class, owner);
            if (slab == NULL && hk_page_heap_dirty() >= JOIN_FROM && (got = join_blocks(owner, class, end, want)) > 0)
                break;
            slab = enter_or_make(owner, class, slab);
        }
        if (slab == NULL)
            break;
        unsigned n = (unsigned)hk_min(want - got, slab->free), blank = slab->blank;
        hk_slab_alloc(slab, end - got, n);
        got += n;
        if (HK_UNLIKELY(slab->blank < blank) && n == 1)
            owner->blank = end[-(int)got];
        if (HK_UNLIKELY(hk_remote_track.on))
            hk_track_give_out(slab, end - got, n, 1);
        if (slab->free == 0)
            move_between_lists(owner, slab);
    }
    return got;
}

/* Moves a slab from the lists of `from` to `to`, which enters it afterwards: `slab`, or the next slab with free blocks if `slab` is NULL. Returns NULL
 * if it is not in these lists, or if `from` has ended, or is awake and uses the class. A slab of `from` is in no list before `from` has entered it. */
static struct hk_slab *give_away(struct hk_owner *from, struct hk_slab *slab, unsigned class, uint64_t asleep_since,
                                 const struct hk_owner *to)
{
    hk_slab_lists_lock(from);
    bool gives = hk_load(from->xopen) && (hk_load(from->xawake) <= asleep_since || hk_slab_heap_is_unused(from, class));
    if (!gives || (slab != NULL && (hk_load_acquire(slab->xowner) != from->id || !hk_link_linked(&slab->link))))
        slab = NULL;
    else if (slab == NULL)
        slab = hk_slab_heap_partial(from, class);
    if (slab != NULL) {
        leave_list_of_class(from, slab);
        hk_slab_hand_to(slab, to->id);
        HK_COUNT(slabs_taken_over, 1);
    }
    hk_slab_lists_unlock(from);
    return slab;
}

/* Asks owner `id` for `slab`, or for any slab with free blocks if `slab` is NULL. It gives one if it does not use the class, or has not read the clock
 * for HK_TICK_MS. The caller does not hold the lock of its own lists, because two owners could otherwise wait for each other. */
static struct hk_slab *ask(const struct hk_owner *owner, uint32_t id, struct hk_slab *slab, unsigned class)
{
    struct hk_owner *from = hk_owner_by_id(id);
    uint64_t now = hk_load(owner->xawake), asleep_since = now - hk_min(now, HK_TICK_MS);
    bool unused = hk_load(from->xawake) <= asleep_since || (hk_load(from->xunused) >> class & 1) != 0;
    if (now == UINT64_MAX || from == owner || !hk_load(from->xopen) || !unused ||
        (slab == NULL && !hk_slab_heap_has_partial(from, class)))
        return NULL;
    return HK_UNDER(&hk_sweep_lock, hk_owner_rests(id) ? NULL : give_away(from, slab, class, asleep_since, owner));
}

/* Takes over a slab with free blocks. The next call begins with the owner that gave the slab. */
static HK_NOINLINE void take_over(struct hk_owner *owner, unsigned class)
{
    struct hk_slab *slab = NULL;
    uint32_t end = hk_owner_end(), all = end - HK_FIRST_OWNER + 1; /* one look goes back to the first owner */
    for (size_t left = hk_min(OWNERS_PER_SLAB, all); left > 0 && slab == NULL; left--) {
        uint32_t id = hk_owner_next(owner->next_victim);
        slab = id < end ? ask(owner, id, NULL, class) : NULL;
        owner->next_victim = slab != NULL ? id : id < end ? id + 1 : HK_FIRST_OWNER;
    }
    if (slab == NULL)
        return;
    owner->source = HK_SOURCE_ADOPTED;
    hk_slab_heap_enter(owner, slab);
}

bool hk_slab_heap_take_queued(struct hk_owner *owner, struct hk_slab *slab)
{
    uint32_t id = hk_load(slab->xowner);
    bool owned = hk_slab_lists_shared && id >= HK_FIRST_OWNER && id < hk_owner_end();
    if (!owned || id == owner->id || ask(owner, id, slab, slab->d.class) == NULL)
        return owned && id == owner->id;
    hk_slab_heap_enter(owner, slab);
    return true;
}

/* Tests once whether the lists are shared, and not separately for the lock and the unlock, because most processes need no lock. */
unsigned hk_slab_heap_alloc(struct hk_owner *owner, unsigned class, void **end, unsigned want)
{
    if (HK_LIKELY(!hk_slab_lists_shared))
        return take_blocks(owner, class, end, want);
    if (!hk_slab_heap_has_partial(owner, class) && !hk_abandoned_has(class))
        take_over(owner, class);
    return HK_UNDER(&owner->slab_lists_lock, take_blocks(owner, class, end, want));
}

unsigned hk_slab_heap_take_own(struct hk_owner *owner, unsigned class, void **end, unsigned want)
{
    hk_slab_lists_lock(owner);
    bool has = hk_slab_heap_partial(owner, class) != NULL || enter_or_make(owner, class, NULL) != NULL;
    unsigned got = has ? take_blocks(owner, class, end, want) : 0;
    hk_slab_lists_unlock(owner);
    return got;
}

HK_READS_SHARED_WORD static size_t free_in(const struct hk_slab *slab) { return slab->free; }

/* If another owner has `slab` and seems to be asleep, first takes over a slab of this owner. Moves come to an end, because each increases the sum
 * of the squares of the numbers of used blocks. */
unsigned hk_slab_heap_take_fuller(struct hk_owner *owner, unsigned class, struct hk_slab *slab, void **end)
{
    size_t free = free_in(slab), blocks = slab->d.blocks;
    uint32_t holder = hk_load(slab->xowner);
    bool sparse = free * PART_OF_SPARSE >= blocks;
    if (sparse && hk_slab_lists_shared && holder >= HK_FIRST_OWNER && holder != owner->id) {
        owner->next_victim = holder;
        take_over(owner, class);
    }
    hk_slab_lists_lock(owner);
    /* A slab of this owner is in no list only if the program has freed the last block by mistake. */
    bool listed = hk_load(slab->xowner) == owner->id && slab->d.class == class && slab->free > 0;
    listed = listed && hk_link_linked(&slab->link);
    if (listed)
        hk_link_remove_under(&slab->link, &owner->sweep);
    const struct hk_slab *next = hk_slab_heap_partial(owner, class);
    bool helps = sparse && next != NULL && free * next->d.blocks >= next->free * blocks;
    if (listed)
        (helps ? hk_list_push_back : hk_list_push_front)(&owner->slab_lists[class].partial, &slab->link);
    unsigned got = helps ? take_blocks(owner, class, end, 1) : 0;
    hk_slab_lists_unlock(owner);
    return got;
}

/* Releases a slab without live blocks. If the class has no other free blocks, keeps it for the next miss, except a medium slab, which is large. */
static HK_NOINLINE void release_unless_kept(struct hk_owner *owner, struct hk_slab *slab)
{
    const struct hk_link *head = &owner->slab_lists[slab->d.class].partial.head;
    if (hk_slab_all_free(slab) &&
        (head->next != &slab->link || slab->link.next != head || hk_classes[slab->d.class].tier == HK_TIER_MEDIUM))
        hk_slab_heap_release(owner, slab);
}

/* Frees blocks up to the first one of another owner. Called if blocks[0] needs more checks than hk_slab_mark_free() makes, as in a slab with joined
 * blocks. Keeps a slab if the next block lies in it. If all its blocks are free already, the next free is wrong, and only the slab shows this. */
static HK_NOINLINE unsigned free_others(struct hk_owner *owner, void *const *blocks, size_t n)
{
    unsigned freed = 0;
    for (; freed < n; freed++) {
        struct hk_slab *slab = hk_slab_at((uintptr_t)blocks[freed]);
        if (hk_load(slab->xowner) != owner->id)
            break;
        bool was_full = slab->free == 0;
        hk_slab_free(slab, blocks[freed]);
        if (was_full)
            move_between_lists(owner, slab);
        if (freed + 1 == n || hk_slab_at((uintptr_t)blocks[freed + 1]) != slab)
            release_unless_kept(owner, slab);
    }
    return freed;
}

static HK_NOINLINE unsigned free_blocks(struct hk_owner *owner, void *const *blocks, unsigned n)
{
    const uint32_t id = owner->id;
    void *const *at = blocks, *const *end = blocks + n;
    while (at != end) {
        struct hk_slab *slab = hk_slab_at((uintptr_t)*at);
        if (HK_UNLIKELY(hk_load(slab->xowner) != id))
            break;
        void *const *from = at;
        while (hk_slab_mark_free(slab, at) && ++at != end)
            continue;
        size_t freed = (size_t)(at - from);
        unsigned free = hk_slab_count_free(slab, freed);
        if (HK_UNLIKELY(freed == 0))
            return (unsigned)(at - blocks) + free_others(owner, at, (size_t)(end - at));
        if (HK_UNLIKELY(free == freed))
            move_between_lists(owner, slab);
        if (HK_UNLIKELY(free == slab->d.blocks))
            release_unless_kept(owner, slab);
    }
    return (unsigned)(at - blocks);
}

unsigned hk_slab_heap_free(struct hk_owner *owner, void *const *blocks, unsigned n)
{
    if (HK_LIKELY(!hk_slab_lists_shared))
        return free_blocks(owner, blocks, n);
    return HK_UNDER(&owner->slab_lists_lock, free_blocks(owner, blocks, n));
}

/* Reads xowner under the lock, because another thread may take the slab over. Calls hk_send() without the lock, because hk_send() may wait. */
unsigned hk_slab_heap_collect(struct hk_owner *owner, struct hk_slab *slab)
{
    hk_slab_lists_lock(owner);
    if (HK_UNLIKELY(hk_load(slab->xowner) != owner->id)) {
        hk_slab_lists_unlock(owner);
        hk_send(slab);
        return 0;
    }
    bool was_full = slab->free == 0;
    unsigned got = hk_remote_collect(slab);
    if (was_full && got > 0)
        move_between_lists(owner, slab);
    release_unless_kept(owner, slab);
    hk_slab_lists_unlock(owner);
    return got;
}

static void abandon_list(struct hk_list *list)
{
    for (struct hk_link *link; (link = hk_list_first(list)) != NULL;) {
        hk_link_remove(link);
        hk_abandoned_add(hk_container_of(link, struct hk_slab, link));
    }
}

void hk_slab_heap_abandon(struct hk_owner *owner)
{
    hk_slab_lists_lock(owner);
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        abandon_list(&owner->slab_lists[class].partial);
        abandon_list(&owner->slab_lists[class].full);
    }
    hk_store(owner->xopen, false);
    hk_slab_lists_unlock(owner);
}

bool hk_slab_heap_resize(struct hk_owner *owner, struct hk_slab *slab, size_t size)
{
    if (slab->d.blocks != 1 || size > HK_MEDIUM_MAX || size <= HK_SLICE / 2)
        return false;
    unsigned class = hk_class_of(size);
    size_t slices = slab->d.bytes / HK_SLICE, wanted = hk_classes[class].slab_bytes / HK_SLICE;
    if (hk_classes[class].slab_bytes / hk_classes[class].size != 1 ||
        (wanted > slices && !hk_span_extend(slab->d.start, slices, wanted - slices)))
        return false;
    hk_slab_lists_lock(owner);
    leave_list_of_class(owner, slab);
    slab->d.class = (uint8_t) class;
    slab->d.bytes = hk_classes[class].slab_bytes;
    slab->d.block_size = hk_classes[class].size;
    slab->reciprocal = hk_reciprocal(slab->d.block_size);
    hk_slab_note_plain(slab);
    hk_page_map_assign(slab->d.start, wanted, hk_entry(owner->id, class), &slab->d);
    enter_slab(owner, slab);
    hk_slab_lists_unlock(owner);
    if (wanted < slices) {
        hk_page_map_set(slab->d.start + wanted * HK_SLICE, slices - wanted, 0);
        hk_span_free(slab->d.start + wanted * HK_SLICE, slices - wanted);
    }
    return true;
}
