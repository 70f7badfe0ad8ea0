/* Moves slices of a chunk between free and in use, and keeps the lists of chunks by longest free run and by age. */
#include "span/chunks.h"
#include "base/message.h"
#include "count/stats.h"
#include "os/os.h"
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

static void begin_aging(struct hk_chunk *chunk)
{
    chunk->idle_since = hk_os.clock_ms();
    if (hk_link_linked(&chunk->by_age))
        hk_link_remove(&chunk->by_age);
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
