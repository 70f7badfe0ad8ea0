/* Block marks: which blocks of more than 32 KiB are with the program. Their free, realloc and malloc_usable_size are checked before they have
 * an effect: the hit path of smaller blocks has no instruction to spare, theirs has.
 *
 *   malloc: mark of the block's first KiB -> HK_MARK_LIVE           free: -> 0, in whatever thread; without a mark: fatal
 *
 * Owns       the marks (see span/page_map.h), and what their values mean. In slices that slabs of a heap share, which have no medium blocks, they
 *            are notes of that heap's: the class of the page's slab.
 * Invariant  a mark is HK_MARK_LIVE exactly while the block that begins there is with the program; no note has this value. A slab's marks are
 *            mapped before the first of its blocks is handed out, or never. Where they are not (heap outside the window, memory refused, hooks on), the slab's bitmaps
 *            are asked instead: they do not know a free block that waits in a bin.
 * Threads    begin, end: the thread that has the block. Two threads that free one block in the same moment may both find the mark; a
 *            flush finds the second.
 * Never      touches the blocks. */
#ifndef HK_BLOCK_MARKS_H
#define HK_BLOCK_MARKS_H

#include "slab/slab.h"

enum { HK_MARK_NONE = 0, HK_MARK_LIVE = UINT8_MAX };

/* The note of a page whose slab has this class. */
HK_INLINE uint8_t hk_mark_of_class(unsigned class) { return (uint8_t)(class + 1); }
_Static_assert((int)HK_CLASSES < (int)HK_MARK_LIVE, "no note says that a medium block is live");
/* Writes a note, or HK_MARK_NONE, to all marks of a range of pages, as far as these have marks. */
void hk_marks_note_pages(uintptr_t start, size_t bytes, uint8_t note);

/* True for a slab of blocks of more than HK_FINE_MAX: such a slab never holds joined blocks. */
HK_INLINE bool hk_entry_is_medium(uint32_t entry)
{
    uint32_t offset = entry & HK_ENTRY_CLASS_MASK;
    return offset - HK_FINE_CLASSES * HK_CLASS_BYTES < (HK_CLASSES - HK_FINE_CLASSES) * HK_CLASS_BYTES;
}

HK_INLINE void hk_mark_begin(const void *block)
{
    _Atomic uint8_t *mark;
    if (HK_LIKELY(hk_page_map_has_mark((uintptr_t)block, &mark)))
        hk_store(*mark, HK_MARK_LIVE);
}

/* True where a live block begins; false also where there are no marks. */
HK_INLINE bool hk_mark_is_live(const void *block, _Atomic uint8_t **mark)
{
    return HK_LIKELY(hk_page_map_has_mark((uintptr_t)block, mark)) &&
           HK_LIKELY((uintptr_t)block % (1 << HK_MARK_SHIFT) == 0) && HK_LIKELY(hk_load(**mark) == HK_MARK_LIVE);
}

/* Frees the mark of a block that comes back. False if it has none: hk_mark_check() tells why. */
HK_INLINE bool hk_mark_end_fast(const void *block)
{
    _Atomic uint8_t *mark;
    bool live = hk_mark_is_live(block, &mark);
    if (HK_LIKELY(live))
        hk_store(*mark, HK_MARK_NONE);
    return live;
}

/* Ends the program, and names the call, if the address in a slab of medium blocks is not that of a block, or the block is free. */
void hk_mark_check(enum hk_call call, const void *block);
/* The same for a block that comes back. */
void hk_mark_end(enum hk_call call, const void *block);

/* In a fork child: takes every block of the slab that is not free in it for live. Other threads' bins, where some of them lie, are not
 * believed. */
void hk_marks_assume(const struct hk_slab *slab);

#endif
