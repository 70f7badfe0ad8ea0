#include "span/runs.h"

#include "base/bits.h"
#include "base/fatal.h"
#include "base/lock.h"
#include "count/reuse.h"
#include "count/ring.h"
#include "count/stats.h"
#include "os/os.h"
#include "policy/policy.h"
#include "span/growth.h"
#include "span/held.h"
#include "span/map.h"
#include "span/thp.h"

#define SMALLEST_GROWTH (2 * HK_MIB)
#define SCARCE_GROWTH (256 * HK_KIB)
#define LARGEST_GROWTH (32 * HK_MIB)
enum { PART_AT_STAKE = 4 };

struct arena {
    uint64_t listed; /* bit n: by_run[n] is not empty */
    struct hk_list by_run[HK_SUPER_UNITS + 1];
    size_t mapped;
};

static struct {
    struct hk_lock lock;
    struct arena arenas[HK_USES];
    struct hk_list by_age;
    struct hk_list holes; /* supers with unmapped units: their addresses are used first when the heap grows again */
    size_t mapped, free_units, free_dirty_units;
    size_t staked_units;
    _Atomic size_t xhollow; /* pages */
} runs = {.lock = HK_LOCK_INIT(HK_RANK_RUNS)};

/* Nobody but purgers and fork ever waits for it. */
static struct hk_lock purge_lock = HK_LOCK_INIT(HK_RANK_PURGE);

static void unlist(struct hk_super *super)
{
    struct arena *arena = &runs.arenas[super->use];
    if (super->longest == 0)
        return;
    hk_link_remove(&super->by_run);
    if (hk_list_empty(&arena->by_run[super->longest]))
        arena->listed &= ~((uint64_t)1 << super->longest);
    super->longest = 0;
}

static void count_dirty(int units) { hk_store(hk_held.xunits, hk_load(hk_held.xunits) + (size_t)((long)units * (long)HK_UNIT)); }

size_t hk_runs_warm(void) { return hk_load(hk_held.xunits) - hk_load(runs.xhollow) * HK_PAGE; }

static void set_hollow(struct hk_super *super, uint32_t units, unsigned pages)
{
    size_t hollow = hk_load(runs.xhollow);
    if (HK_LIKELY(pages + hollow == 0))
        return;
    for (; units != 0; units &= units - 1) {
        uint8_t *unit = &super->hollow[hk_ctz64(units)];
        hollow = hollow + pages - *unit;
        *unit = (uint8_t)pages;
    }
    hk_store(runs.xhollow, hollow);
}

static bool has_warm_units(const struct hk_super *super) { return (super->free & super->dirty) != 0; }

static void relist(struct hk_super *super)
{
    struct arena *arena = &runs.arenas[super->use];
    unsigned longest = hk_longest_run32(super->free);
    unlist(super);
    super->longest = (uint16_t)longest;
    if (longest == 0)
        return;
    if (has_warm_units(super))
        hk_list_push_front(&arena->by_run[longest], &super->by_run);
    else
        hk_list_push_back(&arena->by_run[longest], &super->by_run);
    arena->listed |= (uint64_t)1 << longest;
}

static uintptr_t address_of(const struct hk_super *super, unsigned unit)
{
    return super->start + ((uintptr_t)unit << HK_UNIT_SHIFT);
}

static unsigned unit_in_super(uintptr_t address) { return (unsigned)(address >> HK_UNIT_SHIFT) % HK_SUPER_UNITS; }

static void note_reuse(const struct hk_super *super, uint32_t units)
{
    uint32_t back = units & (super->purged | (super->dirty & ~super->fresh));
    uint64_t now = hk_reuse_now();
    if (back != 0)
        hk_reuse_back(now - hk_min(now, super->freed_at), hk_popcount64(back) * HK_UNIT);
}

static void begin_ageing(struct hk_super *super)
{
    super->idle_since = hk_os.clock_ms();
    if (hk_link_linked(&super->by_age))
        hk_link_remove(&super->by_age);
    hk_list_push_back(&runs.by_age, &super->by_age);
}

/* The first touch makes all of a huge page resident. */
static void touch_huge_page(struct hk_super *super)
{
    super->fresh = super->free;
    super->dirty = super->owned;
    runs.free_dirty_units += hk_popcount64(super->free);
    count_dirty((int)hk_popcount64(super->owned));
}

static void use_units(struct hk_super *super, uint32_t units)
{
    if (hk_load(super->xhuge) && super->dirty == 0)
        touch_huge_page(super);
    note_reuse(super, units);
    super->fresh &= ~units;
    if (super->fresh != 0)
        begin_ageing(super);
    runs.free_units -= hk_popcount64(units);
    runs.free_dirty_units -= hk_popcount64(units & super->dirty);
    count_dirty((int)hk_popcount64(units & ~super->dirty));
    super->free &= ~units;
    super->dirty |= units;
    super->aged &= ~units;
    super->purged &= ~units;
    set_hollow(super, units, 0);
    relist(super);
}

/* Free units that giving back would gain something from. */
static uint32_t idle_units(const struct hk_super *super) { return super->free & super->dirty; }

static void release_units(struct hk_super *super, uint32_t units)
{
    hk_assert((super->free & units) == 0 && (super->owned & units) == units);
    runs.staked_units -= hk_popcount64(units & super->staked);
    super->staked &= ~units;
    runs.free_units += hk_popcount64(units);
    runs.free_dirty_units += hk_popcount64(units & super->dirty);
    super->free |= units;
    if (idle_units(super) != 0 && !hk_link_linked(&super->by_age))
        begin_ageing(super);
    relist(super);
}

/* Enters [address, address + size) as free and clean. A super keeps the use of its first units. */
static void add_memory(uintptr_t address, size_t size, enum hk_use use, bool huge)
{
    for (size_t at = 0; at < size; at += HK_UNIT) {
        struct hk_super *super = hk_map_super(address + at);
        uint32_t unit = (uint32_t)1 << unit_in_super(address + at);
        hk_store(super->xhuge, huge); /* before anything is read: a page that is read first costs two faults */
        HK_READ_NO_EARLIER();
        if (super->owned == 0) {
            super->start = hk_align_down(address + at, HK_SUPER);
            super->use = (uint8_t)use;
        }
        super->owned |= unit;
        super->free |= unit;
        runs.arenas[super->use].mapped += HK_UNIT;
        if (at + HK_UNIT == size || unit_in_super(address + at + HK_UNIT) == 0)
            relist(super);
    }
    runs.free_units += size / HK_UNIT;
    runs.mapped += size;
}

static bool wants_huge_pages(const struct arena *arena)
{
    bool dense = arena == &runs.arenas[HK_USE_DENSE];
    return dense && hk_thp_serves() && HK_POLICY(huge_pages_from) != 0 && hk_held_bytes() >= HK_POLICY(huge_pages_from);
}

/* The system would put it together again, pages that were given back included. */
static void leave_huge_page(struct hk_super *super)
{
    hk_store(super->xhuge, false);
    (void)hk_os.advise_huge((void *)super->start, HK_SUPER, false);
}

static bool purge_range(struct hk_super *super, uintptr_t address, size_t size)
{
    if (hk_load(super->xhuge) && size != HK_SUPER) {
        leave_huge_page(super);
        hk_os.split_huge((void *)address, size);
    }
    return hk_os.purge((void *)address, size);
}

static void enter_growth(struct arena *arena, uintptr_t at, size_t size)
{
    bool huge = size % HK_SUPER == 0 && wants_huge_pages(arena);
    huge = hk_os.advise_huge((void *)at, size, huge) && huge;
    add_memory(at, size, (enum hk_use)(arena - runs.arenas), huge);
}

static void forget_holes(struct hk_super *super, uint32_t units)
{
    super->unmapped &= ~units;
    if (super->unmapped == 0)
        hk_link_remove(&super->by_hole);
}

/* Maps some units again that were unmapped. *lost: something else lies there by now. */
static bool fill_hole(struct arena *arena, struct hk_super *super, uint32_t starts, size_t size, bool *lost)
{
    uint32_t units = hk_low_bits32((unsigned)(size / HK_UNIT)) << hk_ctz64(starts);
    uintptr_t at = address_of(super, hk_ctz64(starts));
    bool mapped = hk_growth_map_again(at, size, lost);
    if (mapped || *lost)
        forget_holes(super, units);
    if (mapped)
        enter_growth(arena, at, size);
    return mapped;
}

/* Where it was before. */
static bool grow_back(struct arena *arena, size_t size)
{
    bool lost = false;
    size = hk_min(size, HK_SUPER);
    for (struct hk_link *link = runs.holes.head.next, *next; link != &runs.holes.head; link = next) {
        struct hk_super *super = hk_container_of(link, struct hk_super, by_hole);
        uint32_t starts = hk_runs32(super->unmapped, (unsigned)(size / HK_UNIT));
        next = link->next;
        if (starts != 0 && fill_hole(arena, super, starts, size, &lost))
            return true;
        if (starts != 0 && !lost)
            return false;
    }
    return false;
}

static bool grow_on(struct arena *arena, size_t size)
{
    uintptr_t at = hk_growth_map(size);
    if (at != 0)
        enter_growth(arena, at, size);
    return at != 0;
}

void hk_runs_init(void)
{
    hk_lock_register(HK_RANK_PURGE, &purge_lock);
    hk_lock_register(HK_RANK_RUNS, &runs.lock);
    hk_growth_init();
    hk_list_init(&runs.by_age);
    hk_list_init(&runs.holes);
    for (unsigned use = 0; use < HK_USES; use++)
        for (unsigned n = 0; n <= HK_SUPER_UNITS; n++)
            hk_list_init(&runs.arenas[use].by_run[n]);
}

/* Grows by a share of what there is; where that is refused, by less, down to what is asked for. */
static bool grow(struct arena *arena, size_t units)
{
    size_t least = units * HK_UNIT;
    size_t share = hk_align_down(arena->mapped / 8, HK_SUPER);
    size_t smallest = hk_load(hk_held.xscarce) ? SCARCE_GROWTH : SMALLEST_GROWTH;
    size_t size = hk_max(least, hk_min(hk_max(share, smallest), LARGEST_GROWTH));
    while (!grow_back(arena, size) && !grow_on(arena, size)) {
        if (size == least)
            return false;
        size = hk_max(least, hk_align_down(size / 2, size > HK_SUPER ? HK_SUPER : HK_UNIT));
    }
    return true;
}

static struct hk_super *first_of(const struct arena *arena, unsigned longest)
{
    return hk_container_of(arena->by_run[longest].head.next, struct hk_super, by_run);
}

/* The tightest fit among supers that hold pages already; else the tightest of all. */
static struct hk_super *tightest_fit(const struct arena *arena, size_t units)
{
    uint64_t fitting = arena->listed >> units << units;
    for (uint64_t left = fitting; left != 0; left &= left - 1) {
        struct hk_super *super = first_of(arena, hk_ctz64(left));
        if (has_warm_units(super))
            return super;
    }
    return fitting != 0 ? first_of(arena, hk_ctz64(fitting)) : NULL;
}

/* A super that is all free changes its use, but for one on huge pages. */
static struct hk_super *convert_one(struct arena *from, enum hk_use use)
{
    struct hk_link *last = from->by_run[HK_SUPER_UNITS].head.prev;
    struct hk_super *super = hk_container_of(last, struct hk_super, by_run);
    if (last == NULL || last == &from->by_run[HK_SUPER_UNITS].head || hk_load(super->xhuge))
        return NULL;
    unlist(super);
    super->use = (uint8_t)use;
    relist(super);
    from->mapped -= HK_SUPER;
    runs.arenas[use].mapped += HK_SUPER;
    return super;
}

/* A run of units that all hold pages. */
static struct hk_super *warm_run(const struct arena *arena, size_t units)
{
    for (uint64_t left = arena->listed >> units << units; left != 0; left &= left - 1) {
        struct hk_super *super = first_of(arena, hk_ctz64(left));
        if (hk_runs32(super->free & super->dirty, (unsigned)units) != 0)
            return super;
    }
    return NULL;
}

/* Rather than touch new pages, a run is taken from among those of the other use. */
static struct hk_super *find_fit(size_t units, enum hk_use use)
{
    struct arena *arena = &runs.arenas[use];
    struct arena *other = &runs.arenas[use == HK_USE_DENSE ? HK_USE_SPARSE : HK_USE_DENSE];
    struct hk_super *super = tightest_fit(arena, units);
    if ((super == NULL || !has_warm_units(super)) && runs.free_dirty_units >= units) {
        struct hk_super *warm = warm_run(other, units);
        super = warm != NULL ? warm : super;
    }
    if (super == NULL)
        super = convert_one(other, use);
    while (super == NULL && grow(arena, units))
        super = tightest_fit(arena, units);
    if (super == NULL) {
        hk_held_refused(false);
        super = tightest_fit(other, units);
    }
    return super;
}

/* What was mapped when the heap was small, and has been given back whole since. */
static void put_on_huge_page_if_empty(struct hk_super *super)
{
    if (super->free == UINT32_MAX && super->dirty == 0 && super->purged != 0 && !hk_load(super->xhuge) && wants_huge_pages(&runs.arenas[super->use]))
        hk_store(super->xhuge, hk_os.advise_huge((void *)super->start, HK_SUPER, true));
}

/* Units that hold pages already are taken first: they cost no fault. 0 where no more memory may be held. */
static uintptr_t take_from(struct hk_super *super, unsigned units)
{
    uint32_t starts = hk_runs32(super->free & super->dirty, units);
    if (starts == 0)
        starts = hk_runs32(super->free, units);
    unsigned first = hk_ctz64(starts);
    uint32_t taken = hk_low_bits32(units) << first;
    put_on_huge_page_if_empty(super);
    if (hk_load(super->xhuge) && super->dirty == 0 && !hk_held_allows(HK_SUPER))
        leave_huge_page(super);
    if (!hk_held_allows(hk_popcount64(taken & ~super->dirty) * HK_UNIT))
        return 0;
    use_units(super, taken);
    return address_of(super, first);
}

/* Where no more memory may be held: units that hold pages, wherever they are. */
static HK_COLD struct hk_super *warm_fit(size_t units)
{
    for (unsigned use = 0; use < HK_USES; use++)
        for (size_t n = units; n <= HK_SUPER_UNITS; n++) {
            struct hk_list *list = &runs.arenas[use].by_run[n];
            for (struct hk_link *link = list->head.next; link != &list->head; link = link->next) {
                struct hk_super *super = hk_container_of(link, struct hk_super, by_run);
                if (hk_runs32(super->free & super->dirty, (unsigned)units) != 0)
                    return super;
            }
        }
    return NULL;
}

static size_t stake(void) { return (runs.arenas[HK_USE_DENSE].mapped - runs.staked_units * HK_UNIT) / PART_AT_STAKE; }

size_t hk_runs_stake(void)
{
    hk_lock(&runs.lock);
    size_t bytes = stake();
    hk_unlock(&runs.lock);
    return bytes;
}

static enum hk_use settled_use(size_t units, enum hk_use use)
{
    bool affordable = (runs.staked_units + units) * HK_UNIT <= stake();
    return use != HK_USE_UNSURE ? use : affordable ? HK_USE_DENSE : HK_USE_SPARSE;
}

static void note_stake(struct hk_super *super, uintptr_t address, size_t units)
{
    super->staked |= hk_low_bits32((unsigned)units) << unit_in_super(address);
    runs.staked_units += units;
}

uintptr_t hk_run_alloc(size_t units, enum hk_use use)
{
    hk_assert(units >= 1 && units <= HK_SUPER_UNITS);
    uintptr_t address = 0;
    hk_lock(&runs.lock);
    struct hk_super *super = find_fit(units, settled_use(units, use));
    bool fits = super != NULL;
    if (fits)
        address = take_from(super, (unsigned)units);
    if (fits && address == 0 && (super = warm_fit(units)) != NULL)
        address = take_from(super, (unsigned)units);
    if (fits && address == 0)
        hk_held_refused(true);
    if (address != 0 && use == HK_USE_UNSURE && super->use == HK_USE_DENSE)
        note_stake(super, address, units);
    hk_unlock(&runs.lock);
    return address;
}

/* Of which nothing is left counts as given back. */
static void note_hollow(struct hk_super *super, uint32_t units, unsigned pages)
{
    if (pages < HK_UNIT / HK_PAGE) {
        set_hollow(super, units, pages);
        return;
    }
    count_dirty(-(int)hk_popcount64(units & super->dirty));
    super->dirty &= ~units;
    super->purged |= units;
}

void hk_run_free_hollow(uintptr_t address, size_t units, size_t hollow)
{
    struct hk_super *super = hk_map_super(address);
    uint32_t freed = hk_low_bits32((unsigned)units) << unit_in_super(address);
    hk_reuse_idled(units * HK_UNIT);
    hk_lock(&runs.lock);
    super->freed_at = hk_reuse_now();
    if (HK_UNLIKELY(hollow != 0))
        note_hollow(super, freed, (unsigned)(hollow / HK_PAGE / units));
    release_units(super, freed);
    hk_unlock(&runs.lock);
}

void hk_run_free(uintptr_t address, size_t units) { hk_run_free_hollow(address, units, 0); }

bool hk_run_extend(uintptr_t address, size_t units, size_t more)
{
    unsigned first = unit_in_super(address) + (unsigned)units;
    if (first + more > HK_SUPER_UNITS)
        return false;
    uint32_t wanted = hk_low_bits32((unsigned)more) << first;
    struct hk_super *super = hk_map_super(address);
    hk_lock(&runs.lock);
    bool free = (super->free & wanted) == wanted && hk_held_allows(hk_popcount64(wanted & ~super->dirty) * HK_UNIT);
    if (free)
        use_units(super, wanted);
    if (free && (super->staked >> (first - 1) & 1) != 0)
        note_stake(super, address + (units << HK_UNIT_SHIFT), more);
    hk_unlock(&runs.lock);
    return free;
}

struct purge {
    uint64_t now_ms, delay_ms;
    bool at_once; /* not only units that a purge has seen before */
    size_t enough; /* bytes */
};

static bool is_super_due(const struct hk_super *super, const struct purge *purge)
{
    return purge->delay_ms == 0 || purge->now_ms >= super->idle_since + purge->delay_ms;
}

/* The lowest units of a set that follow each other. */
static uint32_t first_range(uint32_t units)
{
    unsigned first = hk_ctz64(units), count = hk_ctz64(~((uint64_t)units >> first));
    return hk_low_bits32(count) << first;
}

static bool is_worth_a_split(const struct hk_super *super, uint32_t due, const struct purge *purge)
{
    return !hk_load(super->xhuge) || due == super->owned || purge->delay_ms == 0 || hk_popcount64(due) >= HK_SUPER_UNITS / HK_PART_WORTH_A_SPLIT;
}

/* Takes what is due out of the free units, so that nobody is given a unit while its pages go: as much as one call gives back. The
 * super stays the oldest as long as more is due. */
static uint32_t begin_purge(struct hk_super *super, const struct purge *purge)
{
    uint32_t idle = idle_units(super);
    uint32_t all = purge->at_once ? idle : idle & super->aged;
    if (!is_worth_a_split(super, all, purge))
        all = 0;
    uint32_t due = all != 0 ? first_range(all) : 0;
    if (all == due) {
        super->aged = idle & ~due;
        super->idle_since = purge->now_ms;
        hk_link_remove(&super->by_age);
        if (super->aged != 0)
            hk_list_push_back(&runs.by_age, &super->by_age);
    }
    super->aged &= ~due;
    runs.free_units -= hk_popcount64(due);
    runs.free_dirty_units -= hk_popcount64(due & super->dirty);
    super->free &= ~due;
    relist(super);
    return due;
}

/* `gone` are the units of `due` whose pages the system took. */
static void end_purge(struct hk_super *super, uint32_t due, uint32_t gone)
{
    hk_lock(&runs.lock);
    count_dirty(-(int)hk_popcount64(gone & super->dirty));
    super->dirty &= ~gone;
    super->fresh &= ~gone;
    super->purged |= gone;
    set_hollow(super, gone, 0);
    release_units(super, due);
    hk_unlock(&runs.lock);
}

static uint32_t purge_units(struct hk_super *super, uint32_t due)
{
    unsigned first = hk_ctz64(due);
    size_t size = hk_popcount64(due) * HK_UNIT;
    bool gone = purge_range(super, address_of(super, first), size);
    HK_COUNT(purges, 1);
    HK_TRACE(&hk_ring_shared, purge, size, address_of(super, first));
    HK_COUNT(purged_bytes, gone ? size : 0);
    return gone ? due : 0;
}


/* Of the oldest, what one system call gives back: bytes. `over` where nothing is due any more, or the system will not. */
static size_t purge_range_locked(const struct purge *purge, bool *over)
{
    hk_lock(&runs.lock);
    struct hk_link *oldest = hk_list_first(&runs.by_age);
    struct hk_super *super = oldest != NULL ? hk_container_of(oldest, struct hk_super, by_age) : NULL;
    bool due_now = super != NULL && is_super_due(super, purge);
    uint32_t due = due_now ? begin_purge(super, purge) : 0;
    hk_unlock(&runs.lock);
    *over = !due_now;
    if (due == 0)
        return 0;
    uint32_t gone = purge_units(super, due);
    *over = gone != due;
    end_purge(super, due, gone);
    return hk_popcount64(gone) * HK_UNIT;
}

static bool lock_purge(bool waits)
{
    if (!waits)
        return hk_try_lock(&purge_lock);
    hk_lock(&purge_lock);
    return true;
}

/* The lock is given up after each call: fork waits for one at most. Who does not wait leaves the rest to who is at it. */
static size_t purge_ranges(const struct purge *purge, bool waits)
{
    size_t bytes = 0;
    for (bool over = false; !over && bytes < purge->enough && lock_purge(waits);) {
        bytes += purge_range_locked(purge, &over);
        hk_unlock_in_turn(&purge_lock);
    }
    return bytes;
}

size_t hk_runs_purge(uint64_t now_ms, uint64_t delay_ms)
{
    struct purge purge = {.now_ms = now_ms, .delay_ms = delay_ms, .at_once = delay_ms == 0, .enough = SIZE_MAX};
    return purge_ranges(&purge, purge.at_once);
}

size_t hk_runs_purge_oldest(uint64_t now_ms, uint64_t delay_ms, size_t enough)
{
    struct purge purge = {.now_ms = now_ms, .delay_ms = delay_ms, .at_once = true, .enough = enough};
    return purge_ranges(&purge, false);
}

size_t hk_runs_trim(uint64_t now_ms, size_t enough)
{
    struct purge purge = {.now_ms = now_ms, .delay_ms = 0, .at_once = true, .enough = enough};
    return purge_ranges(&purge, true);
}

/* What unmapping takes of a super: all of it, or, where address space is scarce, whatever is free. */
static uint32_t units_to_unmap(const struct hk_super *super)
{
    return super->free == super->owned || hk_load(hk_held.xscarce) ? super->free : 0;
}

static struct hk_super *next_to_unmap(bool warm_too)
{
    for (unsigned use = 0; use < HK_USES; use++)
        for (unsigned n = HK_SUPER_UNITS; n > 0; n--) {
            struct hk_list *list = &runs.arenas[use].by_run[n];
            for (struct hk_link *link = list->head.next; link != &list->head; link = link->next) {
                struct hk_super *super = hk_container_of(link, struct hk_super, by_run);
                if (units_to_unmap(super) != 0 && (warm_too || !has_warm_units(super)))
                    return super;
            }
        }
    return NULL;
}

static void count_owned(const struct hk_super *super, int units)
{
    size_t bytes = (size_t)((long)units * (long)HK_UNIT);
    runs.mapped += bytes;
    runs.arenas[super->use].mapped += bytes;
}

/* All its free units: from that moment their addresses may come back to anybody. */
static void disown_free(struct hk_super *super)
{
    uint32_t units = super->free;
    runs.free_units -= hk_popcount64(units);
    runs.free_dirty_units -= hk_popcount64(units & super->dirty);
    count_dirty(-(int)hk_popcount64(units & super->dirty));
    count_owned(super, -(int)hk_popcount64(units));
    set_hollow(super, units, 0);
    super->owned &= ~units;
    super->dirty &= ~units;
    super->free = super->aged = super->purged = super->fresh = 0;
    if (hk_link_linked(&super->by_age))
        hk_link_remove(&super->by_age);
    relist(super);
}

static void note_holes(struct hk_super *super, uint32_t units)
{
    super->unmapped |= units;
    if (units != 0 && !hk_link_linked(&super->by_hole))
        hk_list_push_front(&runs.holes, &super->by_hole);
}

static void own_again(struct hk_super *super, uint32_t units, uint32_t dirty)
{
    super->owned |= units;
    super->dirty |= dirty;
    count_dirty((int)hk_popcount64(dirty));
    count_owned(super, (int)hk_popcount64(units));
    release_units(super, units);
}

/* What the system keeps. */
static uint32_t unmap_units(struct hk_super *super, uint32_t units)
{
    uint32_t kept = 0;
    for (uint32_t left = units, range; left != 0; left &= ~range) {
        range = first_range(left);
        if (!hk_os.unmap((void *)address_of(super, hk_ctz64(range)), hk_popcount64(range) * HK_UNIT))
            kept |= range;
    }
    return kept;
}

/* False if there is none to unmap, or the system keeps it. */
static bool unmap_one(bool warm_too, size_t *bytes)
{
    hk_lock(&runs.lock);
    struct hk_super *super = next_to_unmap(warm_too);
    uint32_t units = super != NULL ? super->free : 0, dirty = super != NULL ? super->free & super->dirty : 0;
    if (super != NULL)
        disown_free(super);
    hk_unlock(&runs.lock);
    if (super == NULL)
        return false;
    uint32_t kept = unmap_units(super, units);
    hk_lock(&runs.lock);
    note_holes(super, units & ~kept);
    if (kept != 0)
        own_again(super, kept, dirty & kept);
    hk_unlock(&runs.lock);
    *bytes += hk_popcount64(dirty & ~kept) * HK_UNIT;
    return kept == 0;
}

size_t hk_runs_unmap(bool warm_too)
{
    size_t bytes = 0;
    bool more = true;
    while (more) {
        hk_lock(&purge_lock); /* fork waits for one, not for all */
        more = unmap_one(warm_too, &bytes);
        hk_unlock(&purge_lock);
    }
    return bytes;
}

bool hk_runs_on_huge_page(uintptr_t address, size_t *free)
{
    const struct hk_super *super = hk_map_super(address);
    hk_lock(&runs.lock);
    bool huge = hk_load(super->xhuge);
    *free = hk_popcount64(super->free) * HK_UNIT;
    hk_unlock(&runs.lock);
    return huge;
}

bool hk_run_purge(uintptr_t address, size_t size) { return purge_range(hk_map_super(address), address, size); }

enum hk_unit hk_runs_unit(uintptr_t address)
{
    const struct hk_super *super = hk_map_super(address);
    hk_lock(&runs.lock);
    bool owned = (super->owned >> unit_in_super(address)) & 1, free = (super->free >> unit_in_super(address)) & 1;
    hk_unlock(&runs.lock);
    return !owned ? HK_UNIT_FOREIGN : free ? HK_UNIT_FREE : HK_UNIT_USED;
}

void hk_runs_total(struct hk_runs_totals *totals)
{
    hk_lock(&runs.lock);
    totals->mapped = runs.mapped;
    totals->free_dirty = runs.free_dirty_units * HK_UNIT;
    totals->free_clean = (runs.free_units - runs.free_dirty_units) * HK_UNIT;
    hk_unlock(&runs.lock);
}
