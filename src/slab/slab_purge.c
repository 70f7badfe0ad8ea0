/* Finds runs of free blocks that cover whole pages, and purges these pages. */
#include "slab/slab_purge.h"
#include "count/stats.h"
#include "count/ring.h"
#include "policy/policy.h"
#include "span/page_heap.h"

struct range {
    const uint64_t *bits; /* bit i is set if block i counts as free */
    unsigned next;        /* index of the first block after the end of the range */
    uintptr_t start, end;
};

/* Finds the next run of whole pages between live blocks. The slab's tail counts as free. Returns false if no such run follows. */
static bool next_range(const struct hk_slab *slab, struct range *range)
{
    size_t page = hk_system_page();
    unsigned page_blocks = (unsigned)hk_max(1, page / slab->d.block_size); /* fewer blocks hold no whole page */
    while (range->next <= slab->d.blocks) {
        unsigned first = hk_bits_find(range->bits, range->next, slab->d.blocks, 0), last = first + page_blocks - 1;
        bool too_short = last > first && last < slab->d.blocks && (range->bits[last / 64] >> last % 64 & 1) == 0;
        unsigned taken = too_short ? last : hk_bits_find(range->bits, first, slab->d.blocks, UINT64_MAX);
        size_t to = taken == slab->d.blocks ? slab->d.bytes : (size_t)taken * slab->d.block_size;
        range->start = hk_align_up(slab->d.start + (size_t)first * slab->d.block_size, page);
        range->end = hk_align_down(slab->d.start + to, page);
        range->next = taken + 1;
        if (range->start < range->end)
            return true;
    }
    return false;
}

/* Returns the slab's sixteenths that lie wholly in a range. The range counts as purged if they are all clean. If a freed block extends the range, one
 * more sixteenth lies in it, because no sixteenth is larger than both a block and a page. That one is not clean, so the range is purged again. */
static uint32_t parts_in(const struct hk_slab *slab, const struct range *range)
{
    size_t part = slab->d.bytes / HK_SLAB_SIXTEENTHS;
    unsigned first = (unsigned)((range->start - slab->d.start + part - 1) / part);
    unsigned behind = (unsigned)((range->end - slab->d.start) / part);
    return first < behind ? hk_low_bits32(behind) & ~hk_low_bits32(first) : 0;
}

static bool is_purged(const struct hk_slab *slab, const struct range *range)
{
    uint32_t parts = parts_in(slab, range);
    return parts != 0 && (parts & ~(uint32_t)slab->clean) == 0;
}

/* Purges a range, and counts the call. Returns the bytes of the range, or 0 if the system refuses. */
static size_t purge_counted(const struct range *range)
{
    size_t length = range->end - range->start;
    HK_COUNT(purges, 1);
    HK_TRACE(&hk_ring_shared, purge, length, range->start);
    return hk_span_purge(range->start, length) ? length : 0;
}

static size_t purge(struct hk_slab *slab, const struct range *range)
{
    size_t length = purge_counted(range), bytes = is_purged(slab, range) ? 0 : length;
    if (length == 0)
        return 0;
    hk_slab_note_clean(slab, (uint16_t)(slab->clean | parts_in(slab, range)));
    hk_reuse_idled(bytes);
    HK_COUNT(purged_bytes, bytes);
    HK_COUNT(purged_in_slabs, bytes);
    return bytes;
}

HK_INLINE bool next_resident(const struct hk_slab *slab, struct range *range)
{
    while (next_range(slab, range))
        if (!is_purged(slab, range))
            return true;
    return false;
}

/* Returns true if the slabs of both entries have the same holder. They then have the same owner, or are abandoned slabs of the same class. */
static bool held_together(uint32_t entry, uint32_t other)
{
    if (hk_entry_owner(entry) != HK_ABANDONED)
        return hk_entry_owner(other) == hk_entry_owner(entry);
    return other == entry && !hk_entry_is_mixed(entry);
}

/* A sweep for excess visits all slabs at once. So in slabs of small blocks, which have few whole free pages, it leaves out the chunk's other slabs. */
static bool worth_a_split(const struct hk_slab *slab, enum hk_sweep_why why)
{
    size_t free;
    if (!hk_page_heap_on_huge_page(slab->d.start, &free))
        return true;
    if (why == HK_SWEEP_EXCESS && slab->d.block_size < hk_system_page())
        return free + slab->free * (size_t)slab->d.block_size >= HK_CHUNK / HK_PART_WORTH_A_SPLIT;
    uint32_t entry = hk_page_map_lookup(slab->d.start);
    uintptr_t chunk = hk_align_down(slab->d.start, HK_CHUNK);
    for (uintptr_t at = chunk; at < chunk + HK_CHUNK; at += HK_SLICE)
        if (held_together(entry, hk_page_map_lookup(at)) && hk_slab_at(at)->d.start == at)
            for (struct range range = {.bits = hk_slab_at(at)->freebits}; next_range(hk_slab_at(at), &range);)
                free += range.end - range.start;
    return free >= HK_CHUNK / HK_PART_WORTH_A_SPLIT;
}

/* Looks at a slab, and stores the time if the slab was touched since the last look. Returns true if its free pages must be purged now. */
static bool begins(struct hk_slab *slab, struct hk_sweep *sweep)
{
    bool taken = slab->pages == HK_PAGES_TAKEN;
    if (slab->pages != HK_PAGES_AGEING)
        slab->idle_from = hk_age_stamp(sweep->touched);
    slab->pages = HK_PAGES_AGEING;
    bool due =
        sweep->why == HK_SWEEP_EXCESS ||
        (sweep->why == HK_SWEEP_GROWTH ? !taken : hk_age_since(slab->idle_from, sweep->now) >= HK_POLICY(purge_delay));
    sweep->work--;
    sweep->waits |= !due;
    return due;
}

/* Purges the slab's due pages. If the work budget ends, *within is the block at which the next call continues, otherwise 0. Marks the slab as purged
 * before the first purge. An allocation or a free between two calls clears this mark, and the next call then stops. Returns true if pages were purged. */
HK_INLINE bool sweep_slab(struct hk_slab *slab, struct hk_sweep *sweep, unsigned *within)
{
    struct range range = {.bits = slab->freebits, .next = *within};
    bool purged = *within != 0;
    *within = 0;
    if (purged ? slab->pages != HK_PAGES_PURGED : !begins(slab, sweep))
        return purged;
    bool holds = next_resident(slab, &range);
    if (holds && !purged && !worth_a_split(slab, sweep->why)) {
        slab->idle_from = hk_age_stamp(sweep->now);
        return false;
    }
    slab->pages = HK_PAGES_PURGED;
    while (holds) {
        unsigned behind = range.next;
        sweep->work -= HK_WORK_OF_CALL;
        purged |= purge(slab, &range) > 0;
        holds = next_resident(slab, &range);
        if (holds && HK_UNLIKELY(sweep->work <= 0)) {
            *within = behind;
            return true;
        }
    }
    return purged;
}

void hk_slab_sweep_slow(struct hk_walk *walk, struct hk_list *list, struct hk_sweep *sweep)
{
    struct hk_slab *slab = hk_container_of(walk->at, struct hk_slab, link);
    bool purged = sweep_slab(slab, sweep, &walk->within);
    if (walk->within != 0)
        return;
    walk->at = slab->link.next;
    if (purged)
        hk_list_move_to_back(list, &slab->link, walk);
}

int64_t hk_sweep_hold(struct hk_sweep *sweep)
{
    int64_t rest = sweep->work > HK_WORK_OF_HOLD ? sweep->work - HK_WORK_OF_HOLD : 0;
    sweep->work -= rest;
    return rest;
}

struct hk_trim hk_trim_begin(void)
{
    static _Atomic uint32_t xepochs;
    return (struct hk_trim){.pass = hk_add(xepochs, 1) + 1};
}

bool hk_slab_trim(struct hk_slab *slab, struct hk_trim *trim)
{
    if (trim->at != slab) {
        trim->at = slab;
        trim->within = 0;
        slab->pages = HK_PAGES_PURGED; /* stays so until a block is allocated or freed */
    }
    struct range range = {.bits = slab->freebits, .next = trim->within};
    if (next_range(slab, &range)) {
        trim->calls++;
        trim->bytes += purge(slab, &range);
        trim->within = range.next;
        return false;
    }
    trim->at = NULL;
    slab->trimmed = trim->pass;
    return true;
}

/* Does not change the fields that only the slab's holder uses, because the caller does not hold the slab. */
bool hk_slab_purge_claimed(const struct hk_slab *slab, const uint64_t *bits, unsigned *within, size_t *bytes)
{
    struct range range = {.bits = bits, .next = *within};
    if (range.next >= slab->d.blocks || !next_range(slab, &range))
        return false;
    size_t purged = purge_counted(&range);
    HK_COUNT(purged_bytes, purged);
    HK_COUNT(purged_remote, purged);
    *bytes += purged;
    *within = range.next;
    return true;
}

void hk_slab_purge_block(const void *block)
{
    uintptr_t start = (uintptr_t)block, end = start + hk_slab_at(start)->d.block_size;
    struct range range = {.start = hk_align_up(start, hk_system_page()), .end = hk_align_down(end, hk_system_page())};
    if (end - start < HK_CHUNK / HK_PART_WORTH_A_SPLIT && hk_load(hk_page_map_chunk(start)->xhuge))
        return;
    HK_COUNT(large_dropped, purge_counted(&range) != 0); /* purged_bytes counts a page when its slice is purged */
}
