#include "slab/slab_heap.h"

#include "base/bits.h"
#include "base/fatal.h"
#include "slab/lodge.h"
#include "slab/orphans.h"
#include "slab/outbox.h"
#include "span/page_heap.h"

enum {
    SLABS_OF_A_HEAP = 16,  /* that an owner holds, of all classes: it does not only look in */
    TOUCHED_WHOLE = 4608,  /* bytes, a page and a header: of a larger block perhaps only the first pages are ever used */
};
/* What lodges (see lodge.h): no size below, for which holes are where free blocks are; none above, which takes whole pages. */
enum { LEAST_LODGER = 48, LARGEST_LODGER = 8192, LOOKS_FOR_ROOMS = 8, SLABS_UNTIL_NEXT_TRY = 8, PART_THAT_FADES = 5 };
#define LODGE_FROM (64 * HK_MIB)
#define LEAST_TO_LET (2 * HK_MIB)

static void place(struct hk_owner *owner, struct hk_slab *slab)
{
    struct hk_slab_list *list_of_class = &owner->slab_lists[slab->class];
    hk_list_push_front(slab->free > 0 ? &list_of_class->partial : &list_of_class->full, &slab->link);
}

static void move_between_lists(struct hk_owner *owner, struct hk_slab *slab)
{
    hk_link_remove_under(&slab->link, &owner->sweep);
    place(owner, slab);
}

static void enter_slab(struct hk_owner *owner, struct hk_slab *slab)
{
    owner->slab_lists[slab->class].slabs++;
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
    owner->slab_lists[slab->class].slabs--;
    owner->slabs--;
    hk_link_remove_under(&slab->link, &owner->sweep);
}

static void release(struct hk_owner *owner, struct hk_slab *slab)
{
    leave_list_of_class(owner, slab);
    hk_slab_release(slab);
}

static struct hk_slab *own_partial(struct hk_owner *owner, unsigned class)
{
    struct hk_link *first = hk_list_first(&owner->slab_lists[class].partial);
    return first != NULL ? hk_container_of(first, struct hk_slab, link) : NULL;
}

bool hk_slab_heap_has_partial(struct hk_owner *owner, unsigned class)
{
    hk_slab_lists_lock(owner);
    bool has = own_partial(owner, class) != NULL;
    hk_slab_lists_unlock(owner);
    return has;
}

/* Small blocks of a class that has filled a slab will fill the next one too. */
static enum hk_use expected_use(const struct hk_owner *owner, unsigned class)
{
    bool small = hk_classes[class].size <= TOUCHED_WHOLE;
    if (owner->slabs < SLABS_OF_A_HEAP || (small && owner->slab_lists[class].slabs == 0))
        return HK_USE_SPARSE;
    return small ? HK_USE_DENSE : HK_USE_UNSURE;
}

/* A class that is asked for as often as before fills its slabs again. */
static bool class_fades(const struct hk_owner *owner, unsigned class)
{
    const struct hk_slab_list *list_of_class = &owner->slab_lists[class];
    size_t free = (size_t)list_of_class->free * hk_classes[class].size, all = list_of_class->slabs * (size_t)hk_classes[class].slab_bytes;
    return free > LEAST_TO_LET && free * PART_THAT_FADES > all;
}

/* In a slab that has not been taken from of late, unless by others that lodge there. */
static bool has_rooms(const struct hk_slab *slab, unsigned cells)
{
    bool fades = slab->pages != HK_PAGES_TAKEN || slab->mixed;
    bool tried = slab->tried_cells != 0 && slab->tried_cells <= cells && slab->free < slab->tried_free + slab->blocks / 16;
    return fades && !tried && slab->free >= cells && hk_popcount64(slab->clean) < HK_SLAB_SIXTEENTHS / 2;
}

/* Until the next sweep counts again. */
static void note_let(struct hk_slab_list *list_of_class, uint32_t blocks) { list_of_class->free -= (uint32_t)hk_min(list_of_class->free, blocks); }

static unsigned lodge_in(struct hk_owner *owner, struct hk_slab *slab, unsigned cells, void **end, unsigned want)
{
    unsigned got = hk_lodge_take(slab, cells, end, want);
    note_let(&owner->slab_lists[slab->class], got * cells);
    slab->tried_cells = got < want ? (uint8_t)cells : 0;
    slab->tried_free = slab->free;
    if (slab->free == 0) {
        move_between_lists(owner, slab);
    } else if (got < want) {
        hk_link_remove_under(&slab->link, &owner->sweep);
        hk_list_push_back(&owner->slab_lists[slab->class].partial, &slab->link);
    }
    return got;
}

static unsigned lodge_with(struct hk_owner *owner, unsigned host, unsigned cells, void **end, unsigned want)
{
    struct hk_list *partial = &owner->slab_lists[host].partial;
    unsigned got = 0, looks = 0;
    for (struct hk_link *link = partial->head.next, *next; link != &partial->head && got < want && looks < LOOKS_FOR_ROOMS; link = next, looks++) {
        struct hk_slab *slab = hk_container_of(link, struct hk_slab, link);
        next = link->next;
        if (has_rooms(slab, cells))
            got += lodge_in(owner, slab, cells, end - got, want - got);
    }
    return got;
}

/* With smaller classes, the largest of them first; a block is then several of theirs. */
static unsigned lodge_joined(struct hk_owner *owner, unsigned class, void **end, unsigned want)
{
    size_t size = hk_classes[class].size;
    unsigned got = 0;
    for (unsigned host = class; host-- > 0 && got < want;) {
        size_t cell = hk_classes[host].size, cells = (size + cell - 1) / cell;
        if (cells > HK_LODGE_MOST_CELLS)
            break;
        if (hk_class_that_fits(cells * cell) == class && class_fades(owner, host))
            got += lodge_with(owner, host, (unsigned)cells, end - got, want - got);
    }
    return got;
}

/* Rather than grow, a large heap takes what is free between blocks of sizes that are asked for less than before. */
static HK_NOINLINE unsigned lodge(struct hk_owner *owner, unsigned class, void **end, unsigned want)
{
    if (hk_classes[class].size < LEAST_LODGER || hk_classes[class].size > LARGEST_LODGER)
        return 0;
    if (owner->lodge_waits[class] > 0) {
        owner->lodge_waits[class]--;
        return 0;
    }
    unsigned got = lodge_joined(owner, class, end, want);
    if (got == 0)
        owner->lodge_waits[class] = SLABS_UNTIL_NEXT_TRY;
    return got;
}

static struct hk_slab *new_slab(const struct hk_owner *owner, unsigned class)
{
    return hk_slab_make(class, owner->id, expected_use(owner, class));
}

static HK_NOINLINE unsigned take_blocks(struct hk_owner *owner, unsigned class, void **end, unsigned want)
{
    unsigned got = 0;
    while (got < want) {
        struct hk_slab *slab = own_partial(owner, class);
        if (slab == NULL && got == 0) {
            slab = hk_orphans_adopt(class, owner);
            if (slab == NULL && hk_page_heap_dirty() >= LODGE_FROM && (got = lodge(owner, class, end, want)) > 0)
                break;
            if (slab != NULL || (slab = new_slab(owner, class)) != NULL)
                enter_slab(owner, slab);
        }
        if (slab == NULL)
            break;
        unsigned n = (unsigned)hk_min(want - got, slab->free);
        hk_slab_alloc(slab, end - got, n);
        got += n;
        if (slab->free == 0)
            move_between_lists(owner, slab);
    }
    return got;
}

/* Most calls by far are made where there is no background thread: that is asked once, not twice. */
unsigned hk_slab_heap_alloc(struct hk_owner *owner, unsigned class, void **end, unsigned want)
{
    if (HK_LIKELY(!hk_slab_lists_shared))
        return take_blocks(owner, class, end, want);
    hk_slab_lists_lock(owner);
    unsigned got = take_blocks(owner, class, end, want);
    hk_slab_lists_unlock(owner);
    return got;
}

unsigned hk_slab_heap_take_own(struct hk_owner *owner, unsigned class, void **end, unsigned want)
{
    hk_slab_lists_lock(owner);
    struct hk_slab *fresh = own_partial(owner, class) == NULL ? new_slab(owner, class) : NULL;
    if (fresh != NULL)
        enter_slab(owner, fresh);
    unsigned got = own_partial(owner, class) != NULL ? take_blocks(owner, class, end, want) : 0;
    hk_slab_lists_unlock(owner);
    return got;
}

/* One empty slab a class stays for the next miss; a large one would hold too much. */
static bool kept_for_next_miss(struct hk_owner *owner, const struct hk_slab *slab)
{
    struct hk_list *partial = &owner->slab_lists[slab->class].partial;
    bool only_one = partial->head.next == &slab->link && slab->link.next == &partial->head;
    return only_one && hk_classes[slab->class].tier != HK_TIER_LARGE;
}

/* All its blocks are free. */
static HK_NOINLINE void release_unless_kept(struct hk_owner *owner, struct hk_slab *slab)
{
    if (hk_slab_all_free(slab) && !kept_for_next_miss(owner, slab))
        release(owner, slab);
}

/* From the first on that is not the owner's, or lies in a slab that lodgers are in. */
static HK_NOINLINE unsigned give_others(struct hk_owner *owner, void *const *blocks, size_t n)
{
    unsigned given = 0;
    for (; given < n; given++) {
        struct hk_slab *slab = hk_slab_at((uintptr_t)blocks[given]);
        if (hk_load(slab->xowner) != owner->id)
            break;
        bool was_full = slab->free == 0;
        hk_slab_free(slab, blocks[given]);
        if (was_full)
            move_between_lists(owner, slab);
        release_unless_kept(owner, slab);
    }
    return given;
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
        size_t given = (size_t)(at - from);
        unsigned free = hk_slab_count_free(slab, given);
        if (HK_UNLIKELY(given == 0))
            return (unsigned)(at - blocks) + give_others(owner, at, (size_t)(end - at));
        if (HK_UNLIKELY(free == given))
            move_between_lists(owner, slab);
        if (HK_UNLIKELY(free == slab->blocks))
            release_unless_kept(owner, slab);
    }
    return (unsigned)(at - blocks);
}

unsigned hk_slab_heap_free(struct hk_owner *owner, void *const *blocks, unsigned n)
{
    if (HK_LIKELY(!hk_slab_lists_shared))
        return free_blocks(owner, blocks, n);
    hk_slab_lists_lock(owner);
    unsigned given = free_blocks(owner, blocks, n);
    hk_slab_lists_unlock(owner);
    return given;
}

static unsigned collect_slab(struct hk_owner *owner, struct hk_slab *slab)
{
    bool was_full = slab->free == 0;
    unsigned got = hk_remote_collect(slab);
    if (was_full && got > 0)
        move_between_lists(owner, slab);
    release_unless_kept(owner, slab);
    return got;
}

/* Who sends on holds no lock: it may have to wait for another thread. Only this one takes a slab from itself. */
unsigned hk_slab_heap_collect(struct hk_owner *owner, struct hk_slab *slab)
{
    if (HK_UNLIKELY(hk_load(slab->xowner) != owner->id)) {
        hk_send(slab);
        return 0;
    }
    hk_slab_lists_lock(owner);
    unsigned got = collect_slab(owner, slab);
    hk_slab_lists_unlock(owner);
    return got;
}

/* Whoever comes again at once lets the owner in. */
static void leave_in_turn(struct hk_owner *owner)
{
    if (hk_slab_lists_shared)
        hk_unlock_in_turn(&owner->slab_lists_lock);
}

/* Of the class that the trim has come to. False where all are trimmed. */
static bool trim_in_class(struct hk_owner *owner, struct hk_trim *trim)
{
    size_t calls = trim->calls;
    for (int looks = 0; trim->calls == calls && looks < HK_LOOKS_OF_HOLD; looks++) {
        struct hk_slab *slab = own_partial(owner, trim->class);
        if (slab == NULL || hk_slab_is_trimmed(slab, trim))
            return false;
        if (hk_slab_all_free(slab)) {
            release(owner, slab);
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
        trim->class ++; /* nothing was left in it: nothing was called */
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

/* Of the slab that the sweep comes to next, once. */
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

/* Where others may come to the lists, they are let in after each call. */
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

static void abandon_list(struct hk_list *list)
{
    for (struct hk_link *link; (link = hk_list_first(list)) != NULL;) {
        hk_link_remove(link);
        hk_orphans_abandon(hk_container_of(link, struct hk_slab, link));
    }
}

void hk_slab_heap_abandon(struct hk_owner *owner)
{
    hk_slab_lists_lock(owner);
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        abandon_list(&owner->slab_lists[class].partial);
        abandon_list(&owner->slab_lists[class].full);
    }
    owner->sweep.at = NULL;
    owner->sweep_left = 0;
    owner->open = false;
    hk_slab_lists_unlock(owner);
}

/* Enters a slab of one block, with `units` units from where it is, under a new class. */
static void recut(struct hk_owner *owner, struct hk_slab *slab, unsigned class, size_t slices)
{
    leave_list_of_class(owner, slab);
    slab->class = (uint8_t)class;
    slab->bytes = slices * HK_SLICE;
    slab->block_size = hk_classes[class].size;
    slab->reciprocal = hk_reciprocal(slab->block_size);
    slab->extent = slab->plain_extent = slab->block_size;
    hk_page_map_assign(slab->start, slices, hk_entry(owner->id, class), slab);
    enter_slab(owner, slab);
}

static bool resize_slab(struct hk_owner *owner, struct hk_slab *slab, size_t size)
{
    if (slab->blocks != 1 || size > HK_LARGE_MAX || size <= HK_SLICE / 2)
        return false;
    unsigned class = hk_class_of(size);
    const struct hk_class *row = &hk_classes[class];
    if (row->slab_bytes / row->size != 1)
        return false;
    size_t slices = slab->bytes / HK_SLICE;
    size_t wanted = row->slab_bytes / HK_SLICE;
    if (wanted > slices && !hk_span_extend(slab->start, slices, wanted - slices))
        return false;
    recut(owner, slab, class, wanted);
    if (wanted < slices) {
        hk_page_map_set(slab->start + wanted * HK_SLICE, slices - wanted, 0);
        hk_span_free(slab->start + wanted * HK_SLICE, slices - wanted);
    }
    return true;
}

bool hk_slab_heap_resize(struct hk_owner *owner, struct hk_slab *slab, size_t size)
{
    hk_slab_lists_lock(owner);
    bool resized = resize_slab(owner, slab, size);
    hk_slab_lists_unlock(owner);
    return resized;
}
