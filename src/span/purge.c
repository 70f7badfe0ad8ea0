/* Purges free dirty slices, first those of the chunk that has been dirty longest. Unmaps free chunks. */
#include "span/page_heap.h"
#include "count/ring.h"
#include "count/stats.h"
#include "span/chunks.h"
#include "span/footprint.h"

/* Splits a huge page or a folio of which a part is about to be purged, because the system would keep all of its memory otherwise. */
static void split_for_purge(uintptr_t address, size_t size)
{
    struct hk_chunk *chunk = hk_page_map_chunk(address);
    bool leaves = hk_load(chunk->xhuge) && size != HK_CHUNK;
    if (leaves)
        hk_chunk_leave_huge_page(chunk);
    if (leaves || ((address | size) % HK_SLICE != 0 && chunk->use == HK_USE_DENSE && hk_thp_gives_folios()))
        hk_os.split_huge((void *)address, size);
}

bool hk_span_purge(uintptr_t address, size_t size)
{
    split_for_purge(address, size);
    return hk_os.purge((void *)address, size);
}

struct purge {
    uint64_t now_ms, delay_ms;
    bool at_once;  /* true: all free dirty slices of due chunks are purged; false: only the aged ones */
    bool spares;   /* true: huge pages that are not worth a split are skipped, whatever their age */
    unsigned vain; /* the number of chunks that were skipped */
};
enum { MOST_VAIN = 32 };

static bool is_worth_a_split(const struct hk_chunk *chunk, uint32_t due, const struct purge *purge)
{
    return !hk_load(chunk->xhuge) || due == chunk->owned || (purge->delay_ms == 0 && !purge->spares) ||
           hk_popcount64(due) >= HK_CHUNK_SLICES / HK_PART_WORTH_A_SPLIT;
}

/* Takes one run of due slices out of the chunk's free slices, so that no slice is allocated during its purge. The chunk stays first in by_age until
 * no more slices are due. Returns the run, or 0 if no slice is due. */
static uint32_t begin_purge(struct hk_chunk *chunk, const struct purge *purge)
{
    uint32_t idle = hk_chunk_idle(chunk), all = purge->at_once ? idle : idle & chunk->aged;
    if (!is_worth_a_split(chunk, all, purge))
        all = 0;
    uint32_t due = hk_lowest_run32(all);
    if (all == due) {
        bool skipped = purge->spares && due == 0 && idle != 0; /* a skipped chunk keeps its age, for purges by age */
        chunk->aged = skipped ? chunk->aged : idle & ~due;
        chunk->idle_since = skipped ? chunk->idle_since : purge->now_ms;
        hk_link_remove(&chunk->by_age);
        if (skipped || chunk->aged != 0)
            hk_list_push_back(&hk_page_heap.by_age, &chunk->by_age);
    }
    hk_chunk_withdraw(chunk, due);
    return due;
}

/* Makes the slices of a range free again after a purge. `purged` says whether the purge succeeded. */
static void end_purge(const struct hk_os_range *range, bool purged)
{
    struct hk_chunk *chunk = hk_page_map_chunk(range->start);
    uint32_t due = hk_low_bits32((unsigned)(range->size / HK_SLICE)) << hk_chunk_slice(range->start);
    uint32_t gone = purged ? due : 0;
    hk_lock(&hk_page_heap.lock);
    hk_page_heap_count_dirty(-(int)hk_popcount64(gone & chunk->dirty));
    chunk->dirty &= ~gone;
    uint32_t unused = hk_page_heap.ahead != 0 ? gone & chunk->fresh : 0;
    if (unused != 0)
        hk_page_heap.ahead = 0;
    HK_COUNT(prefault_unused, hk_popcount64(unused) * HK_SLICE);
    chunk->fresh &= ~gone;
    chunk->purged |= gone;
    hk_chunk_set_hollow(chunk, gone, 0);
    hk_chunk_release(chunk, due);
    hk_unlock(&hk_page_heap.lock);
}

static struct hk_chunk *oldest_due(const struct purge *purge)
{
    struct hk_link *oldest = hk_list_first(&hk_page_heap.by_age);
    struct hk_chunk *chunk = oldest != NULL ? hk_container_of(oldest, struct hk_chunk, by_age) : NULL;
    bool due = chunk != NULL && (purge->delay_ms == 0 || purge->now_ms >= chunk->idle_since + purge->delay_ms);
    return due ? chunk : NULL;
}

enum { RUNS_OF_BATCH = 32 };
static _Atomic bool xsingly; /* true if the system has refused to purge several ranges at once */

static bool purge_together(const struct hk_os_range *ranges, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        split_for_purge(ranges[i].start, ranges[i].size);
    bool done = hk_os.purge_all(ranges, count);
    hk_store(xsingly, !done);
    HK_COUNT(purge_batches, done);
    return done;
}

/* Purges one run of due slices in the oldest chunk, or several runs with one system call. If the system refuses several runs, purges only the first,
 * because fork must not wait for more calls. Returns the purged bytes. Sets *over if no chunk is due, many were skipped, or the system refused. */
static size_t purge_ranges_locked(struct purge *purge, size_t enough, bool *over)
{
    struct hk_os_range ranges[RUNS_OF_BATCH];
    unsigned count = 0, most = hk_options.free_policy == HK_FREE_BATCH && !hk_load(xsingly) ? RUNS_OF_BATCH : 1;
    size_t bytes = 0, purged = 0;
    hk_lock(&hk_page_heap.lock);
    for (unsigned looks = 0; looks < most && bytes < enough && !*over; looks++) {
        struct hk_chunk *chunk = oldest_due(purge);
        uint32_t due = chunk != NULL ? begin_purge(chunk, purge) : 0;
        *over = chunk == NULL || (purge->spares && due == 0 && ++purge->vain >= MOST_VAIN);
        if (due != 0)
            ranges[count++] =
                (struct hk_os_range){hk_chunk_address(chunk, hk_ctz64(due)), hk_popcount64(due) * HK_SLICE};
        bytes += hk_popcount64(due) * HK_SLICE;
    }
    hk_unlock(&hk_page_heap.lock);
    bool together = count > 1 && purge_together(ranges, count);
    for (unsigned i = 0; i < count; i++) {
        size_t size = ranges[i].size;
        bool gone = together || (i == 0 && hk_span_purge(ranges[i].start, size));
        HK_COUNT(purges, together || i == 0);
        HK_TRACE(&hk_ring_shared, purge, size, ranges[i].start);
        HK_COUNT(purged_bytes, gone ? size : 0);
        *over |= i == 0 && !gone;
        purged += gone ? size : 0;
        end_purge(&ranges[i], gone);
    }
    return purged;
}

/* A purge of excess that has begun waits for other threads, because these may leave some of the excess, and may make no more ticks. */
static size_t purge_until(struct purge *purge, size_t keep, size_t enough, bool waits)
{
    size_t bytes = 0;
    for (bool over = false; !over && bytes < enough && hk_page_heap_idle() > keep; waits |= purge->spares) {
        if (waits)
            hk_lock(&hk_page_heap.purge_lock);
        else if (!hk_try_lock(&hk_page_heap.purge_lock))
            break;
        bytes += purge_ranges_locked(purge, enough - bytes, &over);
        hk_unlock_in_turn(&hk_page_heap.purge_lock);
    }
    return bytes;
}

size_t hk_page_heap_purge(uint64_t now_ms, uint64_t delay_ms, size_t enough, bool waits)
{
    struct purge purge = {now_ms, delay_ms, .at_once = delay_ms == 0 || enough < SIZE_MAX};
    return purge_until(&purge, 0, enough, waits);
}

size_t hk_page_heap_purge_excess(size_t keep, size_t most)
{
    struct purge purge = {.at_once = true, .spares = true};
    return purge_until(&purge, keep, most, false);
}

static bool may_unmap(const struct hk_chunk *chunk, size_t dirty_too)
{
    return (chunk->free == chunk->owned || hk_load(hk_footprint.xscarce)) && (dirty_too || hk_chunk_idle(chunk) == 0);
}

/* Takes the free slices out of the chunk before they are unmapped, because their addresses may belong to another mapping right afterwards. */
static void disown_free(struct hk_chunk *chunk)
{
    uint32_t slices = chunk->free;
    hk_chunk_withdraw(chunk, slices);
    hk_page_heap_count_dirty(-(int)hk_popcount64(slices & chunk->dirty));
    hk_page_heap.arenas[chunk->use].mapped -= hk_popcount64(slices) * HK_SLICE;
    hk_chunk_set_hollow(chunk, slices, 0);
    chunk->owned &= ~slices;
    chunk->dirty &= ~slices;
    chunk->purged = chunk->fresh = 0;
    hk_link_leave(&chunk->by_age);
}

/* Unmaps the free slices of a chunk, and adds their dirty bytes to *bytes. Returns false if there is no such chunk, or if the system refused. */
static bool unmap_one(bool dirty_too, size_t *bytes)
{
    hk_lock(&hk_page_heap.lock);
    struct hk_chunk *chunk = hk_chunk_find(HK_CHUNK_SLICES, 1, may_unmap, dirty_too);
    uint32_t slices = chunk != NULL ? chunk->free : 0, dirty = chunk != NULL ? hk_chunk_idle(chunk) : 0;
    if (chunk != NULL)
        disown_free(chunk);
    hk_unlock(&hk_page_heap.lock);
    if (chunk == NULL)
        return false;
    uint32_t kept = 0; /* slices that the system refuses to unmap */
    for (uint32_t left = slices, range; left != 0; left &= ~range) {
        range = hk_lowest_run32(left);
        if (!hk_os.unmap((void *)hk_chunk_address(chunk, hk_ctz64(range)), hk_popcount64(range) * HK_SLICE))
            kept |= range;
    }
    hk_lock(&hk_page_heap.lock);
    chunk->unmapped |= slices & ~kept;
    if (slices != kept && !hk_link_linked(&chunk->by_hole))
        hk_list_push_front(&hk_page_heap.holes, &chunk->by_hole);
    chunk->owned |= kept;
    chunk->dirty |= dirty & kept;
    hk_page_heap_count_dirty((int)hk_popcount64(dirty & kept));
    hk_page_heap.arenas[chunk->use].mapped += hk_popcount64(kept) * HK_SLICE;
    hk_chunk_release(chunk, kept);
    hk_unlock(&hk_page_heap.lock);
    *bytes += hk_popcount64(dirty & ~kept) * HK_SLICE;
    return kept == 0;
}

size_t hk_page_heap_unmap(bool dirty_too)
{
    size_t bytes = 0;
    while (HK_UNDER(&hk_page_heap.purge_lock, unmap_one(dirty_too, &bytes)))
        continue;
    return bytes;
}

size_t hk_page_heap_leave_out_of_core(void)
{
    size_t bytes = 0;
    if (!HK_COMES_TRUE(hk_try_lock(&hk_page_heap.lock),
                       HK_PAUSES_A_SECOND)) /* while HAKMEM aborts, locks are not certain */
        return 0;
    for (struct hk_link *link = hk_page_heap.by_age.head.next; link != &hk_page_heap.by_age.head; link = link->next) {
        const struct hk_chunk *chunk = hk_container_of(link, struct hk_chunk, by_age);
        for (uint32_t left = hk_chunk_idle(chunk), run; left != 0; left &= ~run) {
            run = hk_lowest_run32(left);
            bytes += hk_os_leave_out_of_core(hk_chunk_address(chunk, hk_ctz64(run)), hk_popcount64(run) * HK_SLICE);
        }
    }
    hk_unlock(&hk_page_heap.lock);
    return bytes;
}
