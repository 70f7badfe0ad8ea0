/* Allocates each span from the chunk whose longest free run fits most tightly. Also frees and extends spans. */
#include "span/page_heap.h"
#include "base/message.h"
#include "count/stats.h"
#include "span/chunks.h"
#include "span/footprint.h"

enum { PART_AT_STAKE = 4 };

void hk_page_heap_init(void)
{
    hk_lock_register(HK_RANK_PURGE, &hk_page_heap.purge_lock);
    hk_lock_register(HK_RANK_PAGE_HEAP, &hk_page_heap.lock);
    hk_page_heap.end = hk_window_first();
    hk_list_init(&hk_page_heap.by_age);
    hk_list_init(&hk_page_heap.holes);
    for (unsigned use = 0; use < HK_USES; use++)
        for (unsigned n = 0; n <= HK_CHUNK_SLICES; n++)
            hk_list_init(&hk_page_heap.arenas[use].by_run[n]);
}

static struct hk_chunk *first_of(const struct hk_arena *arena, unsigned longest)
{
    return hk_container_of(arena->by_run[longest].head.next, struct hk_chunk, by_run);
}

static bool has_dirty(const struct hk_chunk *chunk, size_t slices)
{
    return hk_runs32(hk_chunk_idle(chunk), (unsigned)slices) != 0;
}

/* Returns the fullest huge page that has a run of `dirty` free slices that are dirty. This lets the emptiest huge pages become free as a whole. */
static HK_NOINLINE struct hk_chunk *fullest_huge(const struct hk_arena *arena, uint64_t lists, size_t dirty)
{
    struct hk_chunk *best = NULL;
    for (; lists != 0; lists &= lists - 1) {
        struct hk_chunk *chunk = first_of(arena, hk_ctz64(lists));
        if (hk_load(chunk->xhuge) && has_dirty(chunk, dirty) &&
            (best == NULL || hk_popcount64(chunk->free) < hk_popcount64(best->free)))
            best = chunk;
    }
    return best;
}

/* Returns the tightest fit that has a run of `dirty` free slices that are dirty, or NULL. Looks only at the first chunk of each list, because chunks
 * with free dirty slices come first. If the tightest fit is on a huge page, returns the fullest huge page instead. */
HK_INLINE struct hk_chunk *dirty_run(const struct hk_arena *arena, size_t slices, size_t dirty)
{
    for (uint64_t left = arena->listed >> slices << slices; left != 0; left &= left - 1) {
        struct hk_chunk *chunk = first_of(arena, hk_ctz64(left));
        if (has_dirty(chunk, dirty))
            return HK_UNLIKELY(hk_load(chunk->xhuge)) ? fullest_huge(arena, left, dirty) : chunk;
    }
    return NULL;
}

/* Returns the chunk whose longest free run fits most tightly. Prefers chunks with free dirty slices. Returns NULL if no chunk fits. */
static struct hk_chunk *tightest_fit(const struct hk_arena *arena, size_t slices)
{
    uint64_t fit = arena->listed >> slices << slices;
    struct hk_chunk *chunk = dirty_run(arena, slices, 1);
    return chunk != NULL || fit == 0 ? chunk : first_of(arena, hk_ctz64(fit));
}

/* Moves the last free chunk of the arena `from` to the arena of `use`. Returns this chunk, or NULL if there is none, or if it is on a huge page. */
static struct hk_chunk *convert_one(struct hk_arena *from, enum hk_use use)
{
    struct hk_link *last = from->by_run[HK_CHUNK_SLICES].head.prev;
    struct hk_chunk *chunk = hk_container_of(last, struct hk_chunk, by_run);
    if (last == NULL || last == &from->by_run[HK_CHUNK_SLICES].head || hk_load(chunk->xhuge))
        return NULL;
    if (use == HK_USE_SPARSE)
        hk_chunk_leave_huge_page(chunk); /* the chunk may be on folios */
    hk_chunk_unlist(chunk);
    chunk->use = (uint8_t)use;
    hk_chunk_relist(chunk);
    from->mapped -= HK_CHUNK;
    hk_page_heap.arenas[use].mapped += HK_CHUNK;
    return chunk;
}

/* Returns a chunk with enough free slices, or NULL if memory is refused. Prefers dirty slices of the other arena to clean ones of this arena. */
static struct hk_chunk *find_fit(size_t slices, enum hk_use use)
{
    struct hk_arena *arena = &hk_page_heap.arenas[use];
    struct hk_arena *other = &hk_page_heap.arenas[use == HK_USE_DENSE ? HK_USE_SPARSE : HK_USE_DENSE];
    struct hk_chunk *chunk = tightest_fit(arena, slices);
    if ((chunk == NULL || hk_chunk_idle(chunk) == 0) && hk_load(hk_page_heap.xidle) >= slices) {
        struct hk_chunk *dirty_span = dirty_run(other, slices, slices);
        chunk = dirty_span != NULL ? dirty_span : chunk;
    }
    if (chunk == NULL)
        chunk = convert_one(other, use);
    while (chunk == NULL && hk_arena_grow(arena, slices))
        chunk = tightest_fit(arena, slices);
    if (chunk == NULL) {
        hk_footprint_refused(false);
        chunk = tightest_fit(other, slices);
    }
    return chunk;
}

/* Takes free slices of a chunk. Prefers dirty slices, because they cost no page fault. Returns 0 if the option `limit` refuses clean slices. */
static uintptr_t take_from(struct hk_chunk *chunk, unsigned slices, bool *blank, bool *clean)
{
    uint32_t dirty = hk_runs32(hk_chunk_idle(chunk), slices);
    unsigned first = hk_ctz64(dirty != 0 ? dirty : hk_runs32(chunk->free, slices));
    uint32_t taken = hk_low_bits32(slices) << first;
    /* If all slices of the chunk are free, none is dirty, some were purged, and the arena wants huge pages by now, the chunk gets a huge page. */
    if (chunk->free == UINT32_MAX && chunk->dirty == 0 && chunk->purged != 0 && !hk_load(chunk->xhuge) &&
        hk_arena_wants_huge_pages(&hk_page_heap.arenas[chunk->use]) &&
        (!hk_page_heap_guarded || hk_os.unbar((void *)chunk->start, HK_CHUNK)))
        hk_store(chunk->xhuge, hk_os.advise_huge((void *)chunk->start, HK_CHUNK, true));
    if (hk_load(chunk->xhuge) && chunk->dirty == 0 &&
        !(hk_footprint_allows(HK_CHUNK) && hk_arena_wants_huge_pages(&hk_page_heap.arenas[chunk->use])))
        hk_chunk_leave_huge_page(chunk);
    if (!hk_footprint_allows(hk_popcount64(taken & ~chunk->dirty) * HK_SLICE))
        return 0;
    *clean = (taken & chunk->dirty) == 0;
    *blank = (taken & chunk->dirty & ~chunk->fresh) == 0;
    hk_chunk_use(chunk, taken);
    return hk_chunk_address(chunk, first);
}

static size_t stake(void)
{
    return (hk_page_heap.arenas[HK_USE_DENSE].mapped - hk_page_heap.staked_slices * HK_SLICE) / PART_AT_STAKE;
}

size_t hk_page_heap_stake(void) { return HK_UNDER(&hk_page_heap.lock, stake()); }

static enum hk_use settled_use(size_t slices, enum hk_use use)
{
    if (hk_page_heap_guarded && use == HK_USE_UNSURE)
        return HK_USE_SPARSE; /* sparse chunks have no huge pages, which guard pages would split */
    bool affordable = (hk_page_heap.staked_slices + slices) * HK_SLICE <= stake();
    return use < HK_USES ? use : use == HK_USE_GROWING || affordable ? HK_USE_DENSE : HK_USE_SPARSE;
}

static void note_stake(struct hk_chunk *chunk, uintptr_t address, size_t slices)
{
    chunk->staked |= hk_low_bits32((unsigned)slices) << hk_chunk_slice(address);
    hk_page_heap.staked_slices += slices;
}

/* Returns true if free slices of the chunk are inaccessible. On a huge page, they stay accessible, because guard pages would split the huge page. */
static bool is_guarded(const struct hk_chunk *chunk) { return hk_page_heap_guarded && !hk_load(chunk->xhuge); }
bool hk_span_is_guarded(uintptr_t address) { return hk_page_heap_guarded && is_guarded(hk_page_map_chunk(address)); }

uintptr_t hk_span_alloc(size_t slices, enum hk_use use, bool *blank)
{
    hk_assert(slices >= 1 && slices <= HK_CHUNK_SLICES);
    uintptr_t address = 0;
    bool clean = false;
    hk_lock(&hk_page_heap.lock);
    struct hk_chunk *chunk = find_fit(slices, settled_use(slices, use));
    bool limited = chunk != NULL && (address = take_from(chunk, (unsigned)slices, blank, &clean)) == 0;
    if (limited && (chunk = hk_chunk_find(slices, HK_CHUNK_SLICES, has_dirty, slices)) != NULL)
        address = take_from(chunk, (unsigned)slices, blank, &clean);
    if (limited && address == 0)
        hk_footprint_refused(true);
    if (address != 0 && use == HK_USE_UNSURE && chunk->use == HK_USE_DENSE)
        note_stake(chunk, address, slices);
    hk_unlock(&hk_page_heap.lock);
    if (HK_UNLIKELY(use == HK_USE_GROWING) && address != 0 && clean && !hk_load(chunk->xhuge))
        hk_chunk_prefault(chunk, address, slices);
    if (HK_UNLIKELY(hk_page_heap_guarded) && address != 0 && !hk_os.unbar((void *)address, slices * HK_SLICE)) {
        hk_span_free(address, slices);
        hk_footprint_refused(false);
        return 0;
    }
    return address;
}

/* Stores how many pages of each slice are purged. If these are all pages of the slice, the slice becomes a purged slice. */
static void note_hollow(struct hk_chunk *chunk, uint32_t slices, unsigned pages)
{
    if (pages < HK_SLICE / HK_PAGE) {
        hk_chunk_set_hollow(chunk, slices, pages);
        return;
    }
    hk_page_heap_count_dirty(-(int)hk_popcount64(slices & chunk->dirty));
    chunk->dirty &= ~slices;
    chunk->purged |= slices;
}

void hk_span_free_hollow(uintptr_t address, size_t slices, size_t hollow)
{
    struct hk_chunk *chunk = hk_page_map_chunk(address);
    uint32_t freed = hk_low_bits32((unsigned)slices) << hk_chunk_slice(address);
    hk_reuse_idled(slices * HK_SLICE);
    if (HK_UNLIKELY(is_guarded(chunk)) && hk_os.bar((void *)address, slices * HK_SLICE))
        hollow = slices * HK_SLICE;
    hk_lock(&hk_page_heap.lock);
    chunk->freed_at = hk_reuse_now();
    if (HK_UNLIKELY(hollow != 0))
        note_hollow(chunk, freed, (unsigned)(hollow / HK_PAGE / slices));
    hk_chunk_release(chunk, freed);
    hk_unlock(&hk_page_heap.lock);
}

void hk_span_free(uintptr_t address, size_t slices) { hk_span_free_hollow(address, slices, 0); }

bool hk_span_extend(uintptr_t address, size_t slices, size_t more)
{
    unsigned first = hk_chunk_slice(address) + (unsigned)slices;
    if (first + more > HK_CHUNK_SLICES)
        return false;
    uint32_t wanted = hk_low_bits32((unsigned)more) << first;
    struct hk_chunk *chunk = hk_page_map_chunk(address);
    hk_lock(&hk_page_heap.lock);
    bool free =
        (chunk->free & wanted) == wanted && hk_footprint_allows(hk_popcount64(wanted & ~chunk->dirty) * HK_SLICE);
    if (free)
        hk_chunk_use(chunk, wanted);
    if (free && (chunk->staked >> (first - 1) & 1) != 0)
        note_stake(chunk, address + (slices << HK_SLICE_SHIFT), more);
    hk_unlock(&hk_page_heap.lock);
    return free;
}

bool hk_page_heap_on_huge_page(uintptr_t address, size_t *free)
{
    const struct hk_chunk *chunk = hk_page_map_chunk(address);
    hk_lock(&hk_page_heap.lock);
    bool huge = hk_load(chunk->xhuge);
    *free = hk_popcount64(chunk->free) * HK_SLICE;
    hk_unlock(&hk_page_heap.lock);
    return huge;
}

enum hk_slice_use hk_page_heap_slice(uintptr_t address)
{
    const struct hk_chunk *chunk = hk_page_map_chunk(address);
    hk_lock(&hk_page_heap.lock);
    bool owned = (chunk->owned >> hk_chunk_slice(address)) & 1, free = (chunk->free >> hk_chunk_slice(address)) & 1;
    bool of_huge = hk_load(chunk->xhuge) && chunk->free != UINT32_MAX;
    hk_unlock(&hk_page_heap.lock);
    return !owned ? HK_SLICE_FOREIGN : !free ? HK_SLICE_USED : of_huge ? HK_SLICE_FREE_HUGE : HK_SLICE_FREE;
}

size_t hk_page_heap_dirty(void) { return hk_load(hk_footprint.xslices) - hk_load(hk_page_heap.xhollow) * HK_PAGE; }
size_t hk_page_heap_idle(void) { return hk_load(hk_page_heap.xidle) * HK_SLICE; }

struct hk_page_heap_totals hk_page_heap_total(void)
{
    hk_lock(&hk_page_heap.lock);
    size_t mapped = hk_page_heap.arenas[HK_USE_DENSE].mapped + hk_page_heap.arenas[HK_USE_SPARSE].mapped;
    size_t dirty = hk_page_heap_idle(), clean = hk_page_heap.free_slices * HK_SLICE - dirty;
    hk_unlock(&hk_page_heap.lock);
    return (struct hk_page_heap_totals){mapped, dirty, clean};
}
