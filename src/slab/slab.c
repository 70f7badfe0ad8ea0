/* Takes free blocks out of the bitmap of a slab, counts the purged bytes of slabs, and checks the marks of blocks of more than 32 KiB. */
#include "slab/slab.h"
#include "count/stats.h"

static _Atomic int64_t xclean; /* purged bytes in all slabs */

void hk_slab_hand_to(struct hk_slab *slab, uint32_t owner)
{
    /* A release store is needed, because a thread that reads xowner then uses the owner's inbox. */
    hk_store_release(slab->xowner, owner);
    hk_page_map_set(slab->d.start, slab->d.bytes / HK_SLICE,
                    hk_entry(owner, slab->d.class) | (slab->mixed ? HK_ENTRY_MIXED : 0));
}

HK_COLD void hk_slab_note_clean(struct hk_slab *slab, uint16_t sixteenths)
{
    int64_t before = hk_popcount64(slab->clean), now = hk_popcount64(sixteenths);
    hk_add(xclean, (now - before) * (int64_t)(slab->d.bytes / HK_SLAB_SIXTEENTHS));
    slab->clean = sixteenths;
}

/* In a fork child, the sum may be wrong by the bytes of the slabs that other threads were changing during the fork. */
size_t hk_slabs_clean(void) { return hk_positive_part(hk_load(xclean)); }

static HK_COLD void note_refaults(struct hk_slab *slab)
{
    size_t bytes = hk_popcount64(slab->clean) * (slab->d.bytes / HK_SLAB_SIXTEENTHS);
    hk_reuse_back(hk_age_since(slab->idle_from, hk_reuse_now()), bytes);
    hk_slab_note_clean(slab, 0);
}

void hk_slab_note_taken(struct hk_slab *slab)
{
    slab->pages = HK_PAGES_TAKEN;
    if (HK_UNLIKELY(slab->clean != 0))
        note_refaults(slab);
}

/* Takes blocks from a bitmap word whose free bits are contiguous, like the words of a new slab. */
HK_INLINE void **take_row(uint64_t *word, char *base, size_t size, void **at, void *const *stop)
{
    uint64_t bits = *word, lowest = bits & -bits, beyond = bits + lowest;
    unsigned first = hk_ctz64(bits), have = (beyond != 0 ? hk_ctz64(beyond) : 64) - first;
    size_t n = hk_min(have, (size_t)(at - stop));
    *word = n < have ? bits & -(lowest << n) : 0;
    char *block = base + first * size;
    for (void *const *last = at - n; at != last; block += size)
        *--at = block;
    return at;
}

HK_INLINE void **take_bits(uint64_t *word, char *base, size_t size, void **at, void *const *stop)
{
    uint64_t bits = *word;
    do {
        *--at = base + hk_lowest_bit(bits) * size;
        bits &= bits - 1;
    } while (bits != 0 && at != stop);
    *word = bits;
    return at;
}

void hk_slab_alloc(struct hk_slab *slab, void **end, unsigned n)
{
    hk_assert(n <= slab->free);
    size_t word = slab->first_word, size = slab->d.block_size;
    uint64_t *freebits = slab->freebits;
    void *const *stop = end - n;
    slab->free = (uint16_t)(slab->free - n);
    hk_slab_note_taken(slab);
    for (void **at = end; at != stop; word += freebits[word] == 0) {
        uint64_t bits = freebits[word];
        char *base = (char *)slab->d.start + word * 64 * size;
        if (bits == 0)
            continue;
        bool row = ((bits + (bits & -bits)) & bits) == 0;
        at = row ? take_row(&freebits[word], base, size, at, stop) : take_bits(&freebits[word], base, size, at, stop);
    }
    slab->first_word = (uint16_t)word;
    if (HK_UNLIKELY(slab->blank != 0))
        slab->blank = (uint16_t)hk_min(slab->blank, slab->d.blocks - 1u - hk_slab_index(slab, (uintptr_t)*stop));
}

HK_COLD void hk_slab_refuse(const struct hk_slab *slab, const void *block)
{
    size_t index;
    bool begins = hk_slab_begins(slab, (uintptr_t)block, &index) && !hk_slab_joins(slab, index);
    hk_invalid_pointer(HK_CALL_FLUSH, begins ? HK_TEXT_already_free : HK_TEXT_inside, block);
}

void hk_marks_note_pages(uintptr_t start, size_t bytes, uint8_t note)
{
    _Atomic uint8_t *mark;
    for (uintptr_t at = start; at < start + bytes; at += (size_t)1 << HK_MARK_SHIFT)
        if (hk_page_map_has_mark(at, &mark))
            hk_store(*mark, note);
}

/* Returns true if the block is free in its slab, or was freed remotely. Any thread may pass a live block, because its bits stay clear. */
HK_READS_SHARED_WORD static bool is_free_in_slab(const struct hk_slab *slab, size_t index)
{
    uint64_t bits = slab->freebits[index / 64] | hk_load(slab->xremote[index / 64]);
    return (bits >> (index % 64) & 1) != 0;
}

void hk_mark_check(enum hk_call call, const void *block)
{
    const struct hk_slab *slab = hk_slab_at((uintptr_t)block);
    _Atomic uint8_t *mark;
    size_t index;
    if (HK_LIKELY(hk_mark_is_live(block, &mark)))
        return;
    if (!hk_slab_begins(slab, (uintptr_t)block, &index))
        hk_invalid_pointer(call, HK_TEXT_inside, block);
    if (hk_page_map_has_mark((uintptr_t)block, &mark) || is_free_in_slab(slab, index))
        hk_invalid_pointer(call, HK_TEXT_already_free, block);
}

void hk_mark_end(enum hk_call call, const void *block)
{
    if (!hk_mark_end_fast(block))
        hk_mark_check(call, block);
}

void hk_marks_assume(const struct hk_slab *slab)
{
    for (size_t index = 0; index < slab->d.blocks; index++) {
        _Atomic uint8_t *mark;
        bool marked = hk_page_map_has_mark(slab->d.start + index * slab->d.block_size, &mark);
        if (marked && hk_load(*mark) != HK_MARK_LIVE && !is_free_in_slab(slab, index))
            hk_store(*mark, HK_MARK_LIVE);
    }
}
