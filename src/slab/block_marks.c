/* Checks that a pointer to a block of more than 32 KiB is that of a live block, and ends the program if it is not. */
#include "slab/block_marks.h"

void hk_marks_note_pages(uintptr_t start, size_t bytes, uint8_t note)
{
    _Atomic uint8_t *mark;
    for (uintptr_t at = start; at < start + bytes; at += (size_t)1 << HK_MARK_SHIFT)
        if (hk_page_map_has_mark(at, &mark))
            hk_store(*mark, note);
}

/* Of a live block, neither bit is set, whichever thread asks: its last holder cleared them before it handed the block out. */
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
    if (!hk_which((uintptr_t)block - slab->d.start, slab->reciprocal, &index) || index >= slab->d.blocks)
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
