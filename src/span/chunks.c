/* Moves slices between free and in use, and lists chunks. Grows arenas, makes memory resident before its use, and reads the settings of THP. */
#include "span/chunks.h"
#include "count/stats.h"
#include "os/os.h"
#include "policy/policy.h"
#include "span/footprint.h"

bool hk_page_heap_guarded;
struct hk_page_heap hk_page_heap = {.lock = HK_LOCK_INIT(HK_RANK_PAGE_HEAP), .purge_lock = HK_LOCK_INIT(HK_RANK_PURGE)};

void hk_chunk_unlist(struct hk_chunk *chunk)
{
    struct hk_arena *arena = &hk_page_heap.arenas[chunk->use];
    if (chunk->longest == 0)
        return;
    hk_link_remove(&chunk->by_run);
    if (hk_list_empty(&arena->by_run[chunk->longest]))
        arena->listed &= ~((uint64_t)1 << chunk->longest);
    chunk->longest = 0;
}

void hk_page_heap_count_dirty(int slices)
{
    hk_store(hk_footprint.xslices, hk_load(hk_footprint.xslices) + (size_t)((long)slices * (long)HK_SLICE));
}

void hk_chunk_set_hollow(struct hk_chunk *chunk, uint32_t slices, unsigned pages)
{
    size_t hollow = hk_load(hk_page_heap.xhollow);
    if (HK_LIKELY(pages + hollow == 0))
        return;
    for (; slices != 0; slices &= slices - 1) {
        uint8_t *slice = &chunk->hollow[hk_ctz64(slices)];
        hollow = hollow + pages - *slice;
        *slice = (uint8_t)pages;
    }
    hk_store(hk_page_heap.xhollow, hollow);
}

void hk_chunk_relist(struct hk_chunk *chunk)
{
    struct hk_arena *arena = &hk_page_heap.arenas[chunk->use];
    unsigned longest = hk_longest_run32(chunk->free);
    hk_chunk_unlist(chunk);
    chunk->longest = (uint16_t)longest;
    if (longest == 0)
        return;
    struct hk_link *head = &arena->by_run[longest].head;
    hk_link_insert_after(hk_chunk_idle(chunk) != 0 ? head : head->prev, &chunk->by_run);
    arena->listed |= (uint64_t)1 << longest;
}

struct hk_chunk *hk_chunk_find(size_t from, size_t to, bool (*suits)(const struct hk_chunk *, size_t), size_t how)
{
    for (unsigned use = 0; use < HK_USES; use++)
        for (size_t n = from, step = from <= to ? 1 : SIZE_MAX; n != to + step; n += step) {
            const struct hk_list *list = &hk_page_heap.arenas[use].by_run[n];
            for (struct hk_link *link = list->head.next; link != &list->head; link = link->next)
                if (suits(hk_container_of(link, struct hk_chunk, by_run), how))
                    return hk_container_of(link, struct hk_chunk, by_run);
        }
    return NULL;
}

static void begin_aging(struct hk_chunk *chunk)
{
    chunk->idle_since = hk_os.clock_ms();
    hk_link_leave(&chunk->by_age);
    hk_list_push_back(&hk_page_heap.by_age, &chunk->by_age);
}

void hk_chunk_use(struct hk_chunk *chunk, uint32_t slices)
{
    if (hk_load(chunk->xhuge) && chunk->dirty == 0) { /* the first touch makes the whole huge page resident */
        chunk->fresh = chunk->free;
        chunk->dirty = chunk->owned;
        hk_page_heap_count_idle((int)hk_popcount64(chunk->free));
        hk_page_heap_count_dirty((int)hk_popcount64(chunk->owned));
    }
    uint32_t back = slices & (chunk->purged | (chunk->dirty & ~chunk->fresh));
    uint64_t now = hk_reuse_now();
    if (back != 0)
        hk_reuse_back(now - hk_min(now, chunk->freed_at), hk_popcount64(back) * HK_SLICE);
    chunk->fresh &= ~slices;
    if (chunk->fresh != 0)
        begin_aging(chunk);
    hk_chunk_withdraw(chunk, slices);
    hk_page_heap_count_dirty((int)hk_popcount64(slices & ~chunk->dirty));
    chunk->dirty |= slices;
    chunk->purged &= ~slices;
    hk_chunk_set_hollow(chunk, slices, 0);
}

void hk_chunk_release(struct hk_chunk *chunk, uint32_t slices)
{
    hk_assert((chunk->free & slices) == 0 && (chunk->owned & slices) == slices);
    hk_page_heap.staked_slices -= hk_popcount64(slices & chunk->staked);
    chunk->staked &= ~slices;
    hk_page_heap.free_slices += hk_popcount64(slices);
    hk_page_heap_count_idle((int)hk_popcount64(slices & chunk->dirty));
    chunk->free |= slices;
    if (hk_chunk_idle(chunk) != 0 && !hk_link_linked(&chunk->by_age))
        begin_aging(chunk);
    hk_chunk_relist(chunk);
}

void hk_chunk_leave_huge_page(struct hk_chunk *chunk)
{
    hk_store(chunk->xhuge, false);
    (void)hk_os.advise_huge((void *)chunk->start, HK_CHUNK, false);
}

#define SMALLEST_GROWTH (2 * HK_MIB)
#define SCARCE_GROWTH (256 * HK_KIB)
#define LARGEST_GROWTH (32 * HK_MIB)
#define FIRST_SKIP (1 * HK_GIB)
#define SMALL_HEAP (4 * HK_MIB)
enum { SKIPS = 6 }; /* most attempts to get past another mapping; each attempt skips twice as much as the one before */

static void *map_in_window(size_t size)
{
    uintptr_t at = hk_page_heap.end;
    if (size % HK_CHUNK == 0 || at / HK_CHUNK != (at + size - 1) / HK_CHUNK)
        at = hk_align_up(at, HK_CHUNK);
    enum hk_placed placed;
    for (unsigned i = 0; (placed = hk_os.map_at((void *)at, size)) == HK_PLACE_TAKEN && i < SKIPS; i++)
        at = hk_align_up(at + (FIRST_SKIP << i), HK_CHUNK);
    if (placed != HK_PLACED)
        return NULL;
    hk_page_heap.end = at + size;
    return (void *)at;
}

bool hk_arena_wants_huge_pages(const struct hk_arena *arena)
{
    return arena == &hk_page_heap.arenas[HK_USE_DENSE] && HK_POLICY(huge_pages_from) != 0 &&
           hk_footprint_grown() >= HK_POLICY(huge_pages_from) && hk_thp_serves();
}

/* Adds [address, address + size) to the page heap as free, clean slices. If a chunk already has slices, the chunk stays dense or sparse as it was. To
 * get folios of 64 KiB but no huge page, advises for huge pages in slices 1 to 31 of each chunk, into which no huge page fits. A small heap does so
 * without reading whether the system gives folios or huge pages. */
static void add_memory(struct hk_arena *arena, uintptr_t address, size_t size)
{
    bool dense = arena == &hk_page_heap.arenas[HK_USE_DENSE], small = hk_footprint_bytes() < SMALL_HEAP;
    bool huge = size % HK_CHUNK == 0 && hk_arena_wants_huge_pages(arena);
    bool folios =
        dense && !huge && !hk_page_heap_guarded && HK_POLICY(huge_pages_from) != 0 && (small || hk_thp_gives_folios());
    bool apart = folios && (small || hk_thp_serves());
    if (!apart)
        huge = hk_os.advise_huge((void *)address, size, huge || folios) && huge;
    if (HK_UNLIKELY(hk_page_heap_guarded) && !huge)
        hk_os.bar((void *)address, size);
    for (uintptr_t at = address, next; at < address + size; at = next) {
        next = hk_min(hk_align_down(at, HK_CHUNK) + HK_CHUNK, address + size);
        struct hk_chunk *chunk = hk_page_map_chunk(at);
        uint32_t slices = hk_low_bits32((unsigned)((next - at) / HK_SLICE)) << hk_chunk_slice(at);
        size_t begin = at % HK_CHUNK == 0 ? at + HK_SLICE : at;
        if (apart)
            (void)hk_os.advise_huge((void *)begin, next - begin, true);
        /* The first access to the chunk's struct is a write, because a new page of the table would fault twice if it were read first. */
        hk_store(chunk->xhuge, huge);
        HK_READ_NO_EARLIER();
        if (chunk->owned == 0) {
            chunk->start = hk_align_down(at, HK_CHUNK);
            chunk->use = (uint8_t)(arena - hk_page_heap.arenas);
        }
        chunk->owned |= slices;
        chunk->free |= slices;
        hk_page_heap.arenas[chunk->use].mapped += next - at;
        hk_chunk_relist(chunk);
    }
    hk_page_heap.free_slices += size / HK_SLICE;
}

/* Grows the arena by at most a chunk, at addresses that HAKMEM unmapped before. If another mapping lies at some of them, forgets these. Returns false
 * if no memory could be mapped at such addresses. */
static bool grow_back(struct hk_arena *arena, size_t size)
{
    size = hk_min(size, HK_CHUNK);
    for (struct hk_link *link = hk_page_heap.holes.head.next, *next; link != &hk_page_heap.holes.head; link = next) {
        struct hk_chunk *chunk = hk_container_of(link, struct hk_chunk, by_hole);
        uint32_t starts = hk_runs32(chunk->unmapped, (unsigned)(size / HK_SLICE));
        next = link->next;
        if (starts == 0)
            continue;
        uintptr_t at = hk_chunk_address(chunk, hk_ctz64(starts));
        enum hk_placed placed = hk_os.map_at((void *)at, size);
        if (placed == HK_PLACE_REFUSED)
            return false;
        chunk->unmapped &= ~(hk_low_bits32((unsigned)(size / HK_SLICE)) << hk_ctz64(starts));
        if (chunk->unmapped == 0)
            hk_link_remove(&chunk->by_hole);
        if (placed == HK_PLACED) {
            add_memory(arena, at, size);
            return true;
        }
    }
    return false;
}

/* Grows the arena at new addresses, by slices of one chunk or by whole chunks. Returns false if the system refuses memory. */
static bool grow_on(struct hk_arena *arena, size_t size)
{
    size_t align = hk_pow2_from(hk_min(size, HK_CHUNK)); /* so that the bytes lie in one chunk or fill whole chunks */
    void *p = hk_page_heap.end != 0 ? hk_page_map_covered(map_in_window(size), size, size) : NULL;
    if (p == NULL)
        p = hk_page_map_covered(hk_os_map_aligned(size, align), size, size);
    if (p == NULL)
        return false;
    HK_COUNT(outside_window, hk_page_map_is_flat((uintptr_t)p, size) ? 0 : size);
    add_memory(arena, (uintptr_t)p, size);
    return true;
}

bool hk_arena_grow(struct hk_arena *arena, size_t slices)
{
    size_t least = slices * HK_SLICE, share = hk_align_down(arena->mapped / 8, HK_CHUNK);
    size_t smallest = hk_load(hk_footprint.xscarce) ? SCARCE_GROWTH : SMALLEST_GROWTH;
    size_t size = hk_max(least, hk_min(hk_max(share, smallest), LARGEST_GROWTH));
    while (!grow_back(arena, size) && !grow_on(arena, size)) {
        if (size == least)
            return false;
        size = hk_max(least, hk_align_down(size / 2, size > HK_CHUNK ? HK_CHUNK : HK_SLICE));
    }
    return true;
}

enum {
    MOST_AHEAD = 8,  /* limit of hk_page_heap.ahead, because a malloc waits until the system has cleared the slices */
    AHEAD_PART = 32, /* the slices behind the span add up to at most 1/32 of the footprint */
};

/* Returns the unused slices, from `first` on, that a prefault also makes resident. Returns 0 if they would exceed the knob ceiling or the limit. */
static uint32_t ahead_at(const struct hk_chunk *chunk, unsigned first)
{
    uint64_t never_used = chunk->free & ~chunk->dirty & ~chunk->purged;
    size_t run = hk_ctz64(~(never_used >> first)), part = hk_footprint_bytes() / HK_SLICE / AHEAD_PART;
    size_t count = hk_min(run, hk_min(hk_page_heap.ahead, part)), bytes = count * HK_SLICE;
    bool allowed = hk_footprint_allows(bytes) && hk_footprint_bytes() + bytes <= HK_POLICY(ceiling);
    return allowed ? (uint32_t)((uint64_t)hk_low_bits32((unsigned)count) << first) : 0;
}

/* Holds purge_lock while slices are withdrawn, so that a fork waits, because its child would lose them. Adds no slices if the lock is held. */
void hk_chunk_prefault(struct hk_chunk *chunk, uintptr_t start, size_t slices)
{
    size_t footprint = hk_footprint_bytes();
    if (footprint < SMALL_HEAP || footprint > HK_POLICY(ceiling) || hk_page_heap_guarded ||
        hk_load(hk_page_heap.xprefault_refused) || (hk_options.huge_pages_from != 0 && hk_thp_serves()))
        return;
    bool alone = hk_try_lock(&hk_page_heap.purge_lock);
    hk_lock(&hk_page_heap.lock);
    uint32_t ahead = alone ? ahead_at(chunk, hk_chunk_slice(start) + (unsigned)slices) : 0;
    hk_chunk_use(chunk, ahead);
    hk_unlock(&hk_page_heap.lock);
    size_t bytes = (slices + hk_popcount64(ahead)) * HK_SLICE;
    bool done = hk_os.populate((void *)start, bytes);
    hk_lock(&hk_page_heap.lock);
    chunk->fresh |= ahead; /* also if the system refused, because it may have made a part of the slices resident */
    hk_chunk_release(chunk, ahead);
    hk_page_heap.ahead = done ? (uint32_t)hk_min(hk_max(2 * hk_page_heap.ahead, 1), MOST_AHEAD) : 0;
    hk_unlock(&hk_page_heap.lock);
    if (alone)
        hk_unlock_in_turn(&hk_page_heap.purge_lock);
    if (!done)
        hk_store(hk_page_heap.xprefault_refused, true);
    HK_COUNT(prefaults, 1);
    HK_COUNT(prefaulted_bytes, done ? bytes : 0);
}

#define FOLDER "/sys/kernel/mm/transparent_hugepage/"
enum { READ = 1, HUGE_PAGES = 2, FOLIOS = 4 };
static _Atomic uint8_t xgiven; /* the sizes that the system gives to memory that asks for huge pages; 0: not read yet */

/* Returns true if memory can get pages of the size that the file is about. `otherwise` is the mode if the file does not exist. */
static bool gives(const char *file, char otherwise)
{
    char modes[sizeof "always inherit madvise [never]\n"]; /* the mode in force stands in brackets */
    const char *bracket = hk_os.read_file(file, modes, sizeof modes) > 0 ? strchr(modes, '[') : NULL;
    char mode = bracket != NULL ? bracket[1] : otherwise;
    return mode == 'i' && otherwise != 'm' ? gives(FOLDER "enabled", 'm') : mode != 'n';
}

/* Kernels before Linux 6.8 have only the file of all sizes. If this file does not exist either, the advice has no effect. */
void hk_thp_look(void)
{
    bool any = hk_system_page() == HK_PAGE && !hk_os.forbids_huge();
    int huge = any && gives(FOLDER "hugepages-2048kB/enabled", 'i') ? HUGE_PAGES : 0;
    int folios = any && gives(FOLDER "hugepages-64kB/enabled", 'n') ? FOLIOS : 0;
    hk_store(xgiven, (uint8_t)(READ + huge + folios));
}

static bool is_given(unsigned size)
{
    if (HK_UNLIKELY(hk_load(xgiven) == 0))
        hk_thp_look();
    return (hk_load(xgiven) & size) != 0;
}

bool hk_thp_serves(void) { return is_given(HUGE_PAGES); }
bool hk_thp_gives_folios(void) { return is_given(FOLIOS); }
