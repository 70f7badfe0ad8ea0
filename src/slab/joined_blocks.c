/* Joins adjacent free blocks of a slab into one larger block, and separates the joined block again when it is freed. */
#include "slab/joined_blocks.h"
#include "slab/remote_track.h"
#include "span/meta.h"

/* Marks a slab as mixed or not. A slab becomes mixed before its first joined block is allocated, and stays mixed until the last one is freed. */
static void set_mixed(struct hk_slab *slab, bool mixed)
{
    slab->mixed = mixed;
    hk_slab_note_plain(slab);
    hk_slab_hand_to(slab, hk_load(slab->xowner));
}

void hk_joined_recount(struct hk_slab *slab)
{
    unsigned joined = 0;
    for (unsigned word = 0; word < slab->words; word++)
        joined += hk_popcount64(hk_load(hk_load(slab->xjoined)[word]));
    slab->joined = (uint16_t)joined;
    slab->mixed = joined > 0;
    hk_slab_note_plain(slab);
}

/* Returns the bits of a bitmap word that stand for the blocks from `first` to `end` - 1. */
static uint64_t bits_between(unsigned word, unsigned first, unsigned end)
{
    uint64_t from = first > word * 64 ? UINT64_MAX << (first - word * 64) : UINT64_MAX;
    return end < (word + 1) * 64 ? from & ~(UINT64_MAX << (end - word * 64)) : from;
}

/* Flips joined bits. A load and a store suffice, because only the holder writes the bits. */
static void flip_joined(struct hk_slab *slab, unsigned first, unsigned end)
{
    for (unsigned word = first / 64; word * 64 < end; word++) {
        _Atomic uint64_t *joined = &hk_load(slab->xjoined)[word];
        hk_store(*joined, hk_load(*joined) ^ bits_between(word, first, end));
    }
}

/* Takes free blocks as the cells of a joined block. Clears the free bits first. In the opposite order, a fork child could allocate a block twice. */
static void take_cells(struct hk_slab *slab, unsigned first, unsigned cells)
{
    for (unsigned word = first / 64; word * 64 < first + cells; word++)
        slab->freebits[word] &= ~bits_between(word, first, first + cells);
    HK_FENCE(memory_order_release);
    flip_joined(slab, first + 1, first + cells);
}

unsigned hk_joined_cells(const struct hk_slab *slab, size_t index)
{
    const _Atomic uint64_t *joined = hk_load_acquire(slab->xjoined);
    for (size_t at = index + 1; joined != NULL && at < slab->d.blocks; at = (at / 64 + 1) * 64) {
        uint64_t ends = ~hk_load(joined[at / 64]) >> (at % 64);
        if (ends != 0)
            return (unsigned)(hk_min(at + hk_ctz64(ends), slab->d.blocks) - index);
    }
    return joined != NULL && index < slab->d.blocks ? (unsigned)(slab->d.blocks - index) : 1;
}

unsigned hk_joined_take(struct hk_slab *slab, unsigned cells, void **end, unsigned n)
{
    unsigned got = 0, at = slab->first_word * 64u;
    _Atomic uint64_t *joined = hk_load(slab->xjoined);
    if (joined == NULL && (joined = hk_meta_alloc(hk_slab_bits_bytes(slab))) == NULL)
        return 0;
    hk_store_release(slab->xjoined, joined);
    if (!slab->mixed)
        set_mixed(slab, true);
    while (got < n) {
        unsigned first = hk_bits_find(slab->freebits, at, slab->d.blocks, 0);
        if (first == slab->d.blocks)
            break;
        at = hk_bits_find(slab->freebits, first, slab->d.blocks, UINT64_MAX);
        for (; got < n && at - first >= cells; first += cells, got++) {
            take_cells(slab, first, cells);
            *--end = hk_slab_block(slab, first);
        }
    }
    slab->free = (uint16_t)(slab->free - got * cells);
    slab->joined = (uint16_t)(slab->joined + got * (cells - 1));
    if (got > 0)
        hk_slab_note_taken(slab);
    else if (slab->joined == 0)
        set_mixed(slab, false);
    return got;
}

unsigned hk_joined_part(struct hk_slab *slab, unsigned word, uint64_t bits)
{
    unsigned more = 0;
    for (; bits != 0; bits &= bits - 1) {
        size_t index = (size_t)word * 64 + hk_ctz64(bits);
        if (HK_UNLIKELY(hk_slab_joins(slab, index)))
            hk_slab_refuse(slab, hk_slab_block(slab, index));
        unsigned first = (unsigned)index + 1, end = (unsigned)index + hk_joined_cells(slab, index);
        if (first == end)
            continue;
        flip_joined(slab, first, end);
        HK_FENCE(memory_order_release);
        for (unsigned at = first / 64; at * 64 < end; at++)
            slab->freebits[at] |= bits_between(at, first, end);
        more += end - first;
    }
    slab->joined = (uint16_t)(slab->joined - more);
    if (more > 0 && slab->joined == 0)
        set_mixed(slab, false);
    return more;
}

void hk_joined_free(struct hk_slab *slab, void *block)
{
    size_t index;
    if (HK_UNLIKELY(slab->plain_extent != 0 || !hk_slab_begins(slab, (uintptr_t)block, &index)))
        hk_slab_refuse(slab, block);
    uint64_t bit = (uint64_t)1 << (index % 64);
    hk_track_give_back(slab, index);
    if (HK_UNLIKELY((slab->freebits[index / 64] & bit) != 0))
        hk_slab_refuse(slab, block);
    unsigned cells = 1 + hk_joined_part(slab, (unsigned)(index / 64), bit);
    slab->freebits[index / 64] |= bit;
    slab->first_word = (uint16_t)hk_min(slab->first_word, index / 64);
    hk_slab_count_free(slab, cells);
}

size_t hk_joined_bytes(const void *block)
{
    const struct hk_slab *slab = hk_slab_at((uintptr_t)block);
    return (size_t)slab->d.block_size * hk_joined_cells(slab, hk_slab_index(slab, (uintptr_t)block));
}

unsigned hk_joined_next(const struct hk_slab *slab, unsigned at, unsigned *cells)
{
    for (; at + 1 < slab->d.blocks; at += *cells)
        if ((*cells = hk_joined_cells(slab, at)) > 1)
            return at;
    return slab->d.blocks;
}
