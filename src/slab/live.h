/* Live: which blocks of more than 32 KiB are with the program. Their free, realloc and malloc_usable_size are checked before they have
 * an effect: the hit path of smaller blocks has no instruction to spare, theirs has.
 *
 *   malloc: mark of the block's first KiB 0 -> 1           free: 1 -> 0, in whatever thread; without a mark: fatal
 *
 * Owns       the marks (see span/page_map.h), in which no small block is noted.
 * Invariant  a mark is 1 exactly while the block that begins there is with the program. A slab's marks are mapped before the first of its
 *            blocks is handed out, or never. Where they are not (heap outside the window, memory refused, hooks on), the slab's bitmaps
 *            are asked instead: they do not know a free block that waits in a bin.
 * Threads    begin, end: the thread that has the block. Two threads that free one block in the same moment may both find the mark; a
 *            flush finds the second.
 * Never      touches the blocks. */
#ifndef HK_LIVE_H
#define HK_LIVE_H

#include "slab/slab.h"

/* True for a slab of blocks of more than HK_FINE_MAX: such a slab never holds lodgers. */
HK_INLINE bool hk_entry_is_large(uint32_t entry)
{
    uint32_t offset = entry & HK_ENTRY_CLASS_MASK;
    return offset - HK_FINE_CLASSES * HK_CLASS_BYTES < (HK_CLASSES - HK_FINE_CLASSES) * HK_CLASS_BYTES;
}

HK_INLINE void hk_live_begin(const void *block)
{
    _Atomic uint8_t *mark;
    if (HK_LIKELY(hk_page_map_has_mark((uintptr_t)block, &mark)))
        hk_store(*mark, 1);
}

/* True where a live block begins; false also where there are no marks. */
HK_INLINE bool hk_live_begins_at(const void *block, _Atomic uint8_t **mark)
{
    return HK_LIKELY(hk_page_map_has_mark((uintptr_t)block, mark)) &&
           HK_LIKELY((uintptr_t)block % (1 << HK_MARK_SHIFT) == 0) && HK_LIKELY(hk_load(**mark) != 0);
}

/* Frees the mark of a block that comes back. False if it has none: hk_live_check() tells why. */
HK_INLINE bool hk_live_end_fast(const void *block)
{
    _Atomic uint8_t *mark;
    bool live = hk_live_begins_at(block, &mark);
    if (HK_LIKELY(live))
        hk_store(*mark, 0);
    return live;
}

/* Ends the program, and names the call, if the address in a slab of large blocks is not that of a block, or the block is free. */
void hk_live_check(enum hk_call call, const void *block);
/* The same for a block that comes back. */
void hk_live_end(enum hk_call call, const void *block);

/* In a fork child: takes every block of the slab that is not free in it for live. Other threads' bins, where some of them lie, are not
 * believed. */
void hk_live_assume(const struct hk_slab *slab);

#endif
