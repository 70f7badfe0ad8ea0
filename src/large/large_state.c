/* Holds the lists, totals and lock of large blocks. Finds, maps, lengthens, moves and unmaps a block, and decides if it lies on huge pages. */
#include "large/large_state.h"
#include "span/footprint.h"
#include "span/chunks.h"
#include "span/page_heap.h"

enum { TRIES_FOR_SIGNALS = 100 }; /* so many tries take longer than any thread holds the lock */

struct hk_large hk_large = {.lock = HK_LOCK_INIT(HK_RANK_LARGE)};

void hk_large_init(void)
{
    hk_lock_register(HK_RANK_LARGE, &hk_large.lock);
    hk_list_init(&hk_large.cached);
    hk_list_init(&hk_large.kept);
    hk_list_init(&hk_large.pending_unmap);
    hk_large.sorted = &hk_large.cached.head;
    hk_large.room_unsorted = HK_LARGE_MOST_UNSORTED;
    hk_list_init(&hk_large.with_slack);
}

struct hk_large_totals hk_large_total(void) { return HK_UNDER(&hk_large.lock, hk_large.totals); }

bool hk_large_lock_in_some_tries(void)
{
    if (HK_DEBUG && !hk_lock_is_in_order(HK_RANK_LARGE)) /* a signal handler interrupted a holder of a later lock */
        return false;
    for (int i = 0; i < TRIES_FOR_SIGNALS; i++) {
        if (hk_try_lock(&hk_large.lock))
            return true;
        HK_SPIN_HINT();
    }
    return false;
}

/* Returns a hash of the block's address. Mappings often lie at equal distances. Multiplication by the golden ratio spreads them. */
static uint64_t rank_of(const struct hk_large_block *large)
{
    uint64_t mixed = large->d.start * UINT64_C(0x9e3779b97f4a7c15);
    return mixed ^ mixed >> 32;
}

/* Returns the link that points to the block, or the link at which the block would be inserted. */
static struct hk_large_block **where(const struct hk_large_block *large)
{
    struct hk_large_block **place = &hk_large.extents;
    uint64_t rank = rank_of(large);
    for (struct hk_large_block *at; (at = *place) != NULL && at != large && rank_of(at) >= rank;)
        place = &at->child[at->d.start < large->d.start ? HK_HIGHER : HK_LOWER];
    return place;
}

void hk_extents_add(struct hk_large_block *large)
{
    struct hk_large_block **place = where(large), *rest = *place, **open[] = {&large->child[0], &large->child[1]};
    for (*place = large; rest != NULL;) {
        unsigned side = rest->d.start < large->d.start ? HK_LOWER : HK_HIGHER;
        *open[side] = rest;
        open[side] = &rest->child[!side];
        rest = *open[side];
    }
    *open[HK_LOWER] = *open[HK_HIGHER] = NULL;
    uintptr_t lowest = hk_load(hk_large.xlowest), end = large->d.start + large->d.bytes;
    hk_store(hk_large.xlowest, lowest == 0 ? large->d.start : hk_min(lowest, large->d.start));
    hk_store(hk_large.xhighest, hk_max(hk_load(hk_large.xhighest), end));
}

void hk_extents_remove(struct hk_large_block *large)
{
    struct hk_large_block **place = where(large), *halves[] = {large->child[0], large->child[1]};
    while (halves[HK_LOWER] != NULL && halves[HK_HIGHER] != NULL) {
        unsigned side = rank_of(halves[HK_LOWER]) >= rank_of(halves[HK_HIGHER]) ? HK_LOWER : HK_HIGHER;
        *place = halves[side];
        place = &halves[side]->child[!side];
        halves[side] = *place;
    }
    *place = halves[HK_LOWER] != NULL ? halves[HK_LOWER] : halves[HK_HIGHER];
}

struct hk_large_block *hk_extents_nearest(uintptr_t address, enum hk_side side)
{
    struct hk_large_block *nearest = NULL;
    for (struct hk_large_block *large = hk_large.extents; large != NULL;) {
        enum hk_side of_large = large->d.start < address ? HK_LOWER : HK_HIGHER;
        if (of_large == side)
            nearest = large;
        large = large->child[!of_large];
    }
    return nearest;
}

enum {
    TIMES_GONE = 4,      /* blocks of a size come and go if the freed large blocks add up to 4 times this size */
    WORTH_IF_GONE = 3,   /* if blocks come and go, rounding up to huge pages may add a third of the size */
    WORTH_AT_ONCE = 16,  /* otherwise, rounding up to huge pages may add a sixteenth of the size */
    BLOCKS_AT_STAKE = 8, /* so many blocks may lie on huge pages even in a small heap */
    MOST_UNUSED = 8,     /* after so many unused blocks in a row, new blocks lie on small pages */
    REREAD = 8,          /* from then on, only one freed block in 8 is examined */
};

static void *if_covered(void *p, size_t bytes) { return hk_page_map_covered(p, bytes, 1); }

static bool comes_and_goes(size_t bytes) { return hk_load(hk_large.xgone) / TIMES_GONE >= bytes; }

bool hk_large_freed_are_intact = true;
/* The number of unused blocks in a row, at most MOST_UNUSED. A freed block counts as unused if the program seems to have written little of it. */
static _Atomic unsigned xunused;

void hk_large_note_use_locked(const struct hk_large_block *large)
{
    static uint64_t random;
    uint64_t unused = hk_load(xunused);
    random = hk_random_next(random);
    if (!hk_large_freed_are_intact || (unused == MOST_UNUSED && (random >> 60) % REREAD != 0))
        return;
    const volatile uint64_t *words = (const volatile uint64_t *)large->d.start;
    size_t count = large->requested / sizeof *words;
    bool used = (words[(random >> 32) % count] | words[(hk_random_next(random) >> 32) % count]) != 0;
    hk_store(xunused, used ? 0 : (unsigned)hk_min(unused + 1, MOST_UNUSED));
}

bool hk_large_wastes_huge_pages(const struct hk_large_block *large)
{
    return large->uncut != 0 && hk_load(xunused) == MOST_UNUSED;
}

/* Returns true if a block of this size should lie on huge pages. Returns false if many blocks already do, because a program that touches a block in a
 * few places gets a whole huge page for each place. Blocks of sizes that come and go are exempt, because a huge page serves many of them in turn. */
static bool suits_huge_pages(size_t bytes)
{
    uint64_t from = HK_POLICY(huge_blocks_from);
    if (from == 0 || bytes < from || hk_load(xunused) == MOST_UNUSED || !hk_thp_serves())
        return false;
    size_t staked = hk_load(hk_large.xon_huge_pages) * HK_CHUNK;
    return comes_and_goes(bytes) || staked < BLOCKS_AT_STAKE * HK_CHUNK || staked < hk_page_heap_stake();
}

static bool has_room_for_slack(size_t more)
{
    return hk_large_total().cached + more <= HK_POLICY(large_cache) && HK_POLICY(purge_delay) != 0;
}

/* Rounds up only if the longer mapping can be reused from the cache for the same request (hk_large_loosest()). The added bytes are slack. */
size_t hk_large_in_whole_huge_pages(size_t bytes)
{
    size_t lead = hk_large_lead(), whole = hk_align_up(bytes - lead, HK_CHUNK) + lead, added = whole - bytes;
    size_t most = bytes / (comes_and_goes(bytes) ? WORTH_IF_GONE : WORTH_AT_ONCE);
    bool worth = added > 0 && added <= most && whole <= hk_large_loosest(bytes) && suits_huge_pages(bytes);
    return worth && hk_footprint_allows(whole) && (added <= lead || has_room_for_slack(added)) ? whole : bytes;
}

static bool has_huge_pages(size_t mapped) { return mapped >= HK_CHUNK && suits_huge_pages(mapped); }

/* The address and the size of the block on huge pages that was unmapped last. */
static _Atomic uintptr_t xvacant;
static _Atomic size_t xvacant_bytes;

/* Maps at an address that is probably free and aligned for huge pages. This takes one system call instead of three. The address is xvacant if the
 * mapping fits there. Otherwise it is just below the block at `below`, which will move into the mapping. Returns NULL if the address is not free. */
static void *map_in_place(size_t bytes, uintptr_t below)
{
    bool fits = bytes <= hk_load(xvacant_bytes);
    uintptr_t at = fits ? atomic_exchange_explicit(&xvacant, 0, memory_order_relaxed) : 0;
    if (at == 0 && below > bytes)
        at = hk_align_down(below - bytes + hk_large_lead(), HK_CHUNK) - hk_large_lead();
    return at != 0 && hk_os.map_at((void *)at, bytes) == HK_PLACED ? if_covered((void *)at, bytes) : NULL;
}

/* Returns a mapping, aligned to huge pages if huge pages suit its size. `below` is the address of a block that will move into the mapping, or 0. */
static void *map_suited(size_t bytes, size_t align, uintptr_t below)
{
    bool huge = has_huge_pages(bytes);
    void *p = NULL;
    if (huge && (align > hk_system_page() || (bytes & (HK_CHUNK - 1)) < hk_large_lead())) /* a lead costs a huge page */
        p = if_covered(hk_os_map_aligned(bytes, hk_max(align, HK_CHUNK)), bytes);
    else if (huge && (p = map_in_place(bytes, below)) == NULL)
        p = if_covered(hk_os_map_led(bytes, HK_CHUNK, hk_large_lead()), bytes);
    return p != NULL ? p : if_covered(hk_os_map_aligned(bytes, align), bytes);
}

void *hk_large_map(size_t bytes, size_t align)
{
    return hk_footprint_allows(bytes) ? map_suited(bytes, align, 0) : NULL;
}

/* Requests huge pages only once for a block, because the request stays in force if the mapping is resized or moved. */
void hk_large_enter(struct hk_large_block *large, uintptr_t start, size_t bytes)
{
    hk_add(hk_footprint.xbig, bytes - large->d.bytes);
    large->d.start = start;
    large->d.bytes = large->requested = bytes;
    large->d.block_size = (uint32_t)hk_min(bytes, UINT32_MAX);
    large->d.blocks = 1;
    large->d.class = HK_CLASS_LARGE;
    hk_page_map_assign(start, 1, hk_entry(HK_NOBODY, HK_CLASS_LARGE), &large->d);
    if (large->uncut == 0 && has_huge_pages(bytes) && hk_os.advise_huge((void *)start, bytes, true)) {
        large->uncut = (uint32_t)hk_large_lead();
        hk_add(hk_large.xon_huge_pages, 1);
    }
}

bool hk_large_unmap(struct hk_large_block *large)
{
    uintptr_t start = large->d.start;
    uint32_t entry = hk_load(*hk_page_map_entry(start));
    hk_lock(&hk_large.lock);
    hk_extents_remove(large);
    hk_unlock(&hk_large.lock);
    hk_page_map_set(start, 1, large->ended ? HK_ENTRY_ENDED_LARGE : 0);
    if (hk_os.unmap((void *)start, large->d.bytes)) {
        if (large->uncut != 0 && (large->d.start + hk_large_lead()) % HK_CHUNK == 0) {
            hk_store(xvacant_bytes, large->d.bytes);
            hk_store(xvacant, large->d.start);
        }
        hk_sub(hk_footprint.xbig, large->d.bytes);
        hk_sub(hk_large.xon_huge_pages, large->uncut != 0);
        hk_descriptor_drop(&large->d);
        return true;
    }
    hk_page_map_set(start, 1, entry);
    hk_lock(&hk_large.lock);
    hk_extents_add(large);
    hk_unlock(&hk_large.lock);
    hk_os.purge((void *)start, large->d.bytes);
    return false;
}

static bool enter_if(bool moved, struct hk_large_block *large, uintptr_t start, size_t bytes)
{
    if (moved)
        hk_large_enter(large, start, bytes);
    else
        hk_page_map_set(large->d.start, 1, hk_entry(HK_NOBODY, HK_CLASS_LARGE));
    return moved;
}

/* Moves the pages to a new range. Maps the range first, because huge pages need an aligned range, and because the page map may refuse a range. If the
 * move fails, does not unmap the range, because the kernel may have unmapped it already, and another thread may have mapped something there. */
static bool move_to_reserved(struct hk_large_block *large, size_t bytes)
{
    uintptr_t from = large->d.start;
    void *to = map_suited(bytes, hk_system_page(), from);
    if (to == NULL)
        return false;
    hk_page_map_set(from, 1, 0);
    return enter_if(hk_os.remap((void *)from, large->d.bytes, bytes, to), large, (uintptr_t)to, bytes);
}

/* Moves the pages to a range that the system chooses. This needs no second mapping, for which a memory limit often leaves no room. First maps a page
 * map table for the new range, because the move cannot be undone if there is no memory for the table. */
static bool move_anywhere(struct hk_large_block *large, size_t bytes)
{
    uintptr_t from = large->d.start;
    void *table = hk_os.map(HK_PAGE_MAP_TABLE);
    if (table == NULL)
        return false;
    hk_page_map_set(from, 1, 0);
    void *to = hk_os.move((void *)from, large->d.bytes, bytes);
    if (to != NULL && !hk_page_map_cover_with((uintptr_t)to, &table))
        hk_fatal(HK_TEXT_moved_table);
    if (table != NULL)
        hk_os.unmap(table, HK_PAGE_MAP_TABLE);
    return enter_if(to != NULL, large, (uintptr_t)to, bytes);
}

bool hk_large_remap_in_place(struct hk_large_block *large, size_t bytes)
{
    return enter_if(hk_os.remap((void *)large->d.start, large->d.bytes, bytes, NULL), large, large->d.start, bytes);
}

/* Reserves no range if the program has changed the mapping, because the block may then be several mappings, which one system call cannot move. */
bool hk_large_lengthen(struct hk_large_block *large, size_t bytes)
{
    size_t whole = hk_large_in_whole_huge_pages(bytes);
    return hk_footprint_allows(bytes - large->d.bytes) &&
           (hk_large_remap_in_place(large, whole) || (!large->modified && move_to_reserved(large, whole)) ||
            move_anywhere(large, bytes));
}
