/* A slab is a span that is cut into blocks of one class. A bitmap says which blocks are free, so no list runs through the blocks.
 *
 *   address -> page map -> struct hk_slab (the descriptor of the slab) -> freebits: bit i is set while block i is free in the slab
 *
 * Owns       This file owns the bitmap, and the fields that only the holder uses.
 * Invariant  A block is in exactly one place. It is free in its slab (its free bit is set), remote (its remote bit is set) or claimed (see
 *            remote.h), in a bin, depot, outbox or quarantine of a thread, or in use by the program.
 * Threads    Only the slab's holder allocates and frees. The holder is the owner that the page map entry names. If the entry says HK_ABANDONED,
 *            the holder is the thread that has locked the abandoned slabs of the class.
 * Never      No function touches the memory of the blocks. */
#pragma once

#include "span/descriptor.h"

/* The state of the slab's pages without live blocks. The first three values tell what has happened since a sweep last visited the slab. */
enum hk_pages_state {
    HK_PAGES_TAKEN,                            /* blocks were allocated, so more allocations are likely soon */
    HK_PAGES_FREED,                            /* blocks were freed, and none were allocated */
    HK_PAGES_AGEING = 1 << 1 | HK_PAGES_FREED, /* no block was allocated or freed */
    HK_PAGES_PURGED = 1 << 2 | HK_PAGES_FREED, /* all pages that can be purged are purged */
};

struct hk_slab {
    /* These fields do not change, except xowner and xlist. In a slab of one block, hk_slab_heap_resize() also changes the class and the sizes. */
    struct hk_descriptor d;
    uint64_t *freebits;
    uint64_t reciprocal;       /* 2^64 / block size, rounded up (see hk_which()) */
    _Atomic uint64_t *xremote; /* bit i is set if block i was freed remotely and is not claimed yet (see remote.h) */
    _Atomic uint32_t xowner;   /* the owner that the page map entries name */
    uint16_t words;            /* number of words of freebits and of xremote */
    _Atomic uint8_t xlist;     /* the slab's list while it is abandoned (enum hk_abandoned_list_id) */
    /* Only the holder uses these fields. */
    uint8_t pages HK_ALIGNED(HK_CACHE_LINE); /* enum hk_pages_state */
    bool mixed;    /* true if the slab holds joined blocks; its page map entries are then mixed (see joined_blocks.h) */
    uint16_t free; /* number of free blocks */
    uint16_t first_word;  /* all words of freebits before this one are 0 */
    uint16_t idle_from;   /* age stamp of the last allocation or free, while `pages` is HK_PAGES_AGEING */
    uint16_t clean;       /* bit i is set if sixteenth i of the slab is purged, and the slab had no allocation since */
    uint16_t joined;      /* number of cells of joined blocks, without the first cell of each */
    uint16_t tried_free;  /* number of free blocks after the last search for room for joined blocks */
    uint16_t tried_cells; /* number of cells for which the last search found no room; 0 if there may be room */
    struct hk_link link;  /* link in a list of the owner or of the abandoned slabs */
    uint64_t own_bits[2]; /* freebits of a slab of up to 128 blocks */
    uint32_t trimmed;     /* number of the last trim that purged all free pages of the slab (see slab_purge.h) */
    uint16_t blank;       /* number of blocks at the slab's end that were never allocated and are zero; 0 if unknown */
    size_t plain_extent;  /* bytes of all blocks; 0 if hk_joined_free() must free them (joined blocks, remote track) */
    /* All threads use these fields. They have a cache line of their own, so that a write by another thread does not slow the slab's holder down. */
    _Atomic(struct hk_slab *) xnext HK_ALIGNED(HK_CACHE_LINE); /* the next slab in an inbox */
    _Atomic uint32_t xstate;             /* 2 * number of counted remote blocks, + HK_REMOTE_QUEUED (see remote.h) */
    uint32_t seen_remote;                /* number of remote blocks when a sweep of inboxes last visited the slab */
    uint32_t purged_remote;              /* purged bytes of the seen_remote blocks */
    uint16_t seen_at;                    /* age stamp; seen_remote counts as unchanged since then */
    _Atomic uint64_t xown_remote[2];     /* xremote of a slab of up to 128 blocks */
    _Atomic(_Atomic uint64_t *) xjoined; /* joined bits; NULL before the first joined block (see joined_blocks.h) */
    _Atomic uint64_t *track;             /* a word for each block; NULL if the slab has no track (see remote_track.h) */
} HK_ALIGNED(HK_CACHE_LINE);
_Static_assert(sizeof(struct hk_slab) == HK_DESCRIPTOR_BYTES, "a descriptor");
_Static_assert(offsetof(struct hk_slab, pages) == HK_CACHE_LINE && offsetof(struct hk_slab, xnext) == 2 * HK_CACHE_LINE,
               "the constants, the holder's fields and the shared fields have a line each");

/* Returns the slab of an address. The page map entry of the address must have a size class. */
HK_INLINE struct hk_slab *hk_slab_at(uintptr_t address) { return (struct hk_slab *)(void *)hk_descriptor_at(address); }
/* Returns the slab of a descriptor, or NULL if the descriptor is unused or describes a large block. */
HK_INLINE struct hk_slab *hk_slab_of(struct hk_descriptor *descriptor)
{
    return descriptor->start != 0 && descriptor->class < HK_CLASSES ? (struct hk_slab *)(void *)descriptor : NULL;
}
HK_INLINE struct hk_slab *hk_slab_of_link(struct hk_link *link)
{
    return link != NULL ? hk_container_of(link, struct hk_slab, link) : NULL;
}
HK_INLINE uint64_t hk_reciprocal(size_t size) { return (UINT64_MAX - 1) / size + 1; }

/* Divides an offset of less than 4 GiB by the block size with one multiplication. The high half of the product is the index. The low half is less
 * than the reciprocal only if the remainder is 0. Returns true in this case, because a block then begins at the offset. */
HK_INLINE bool hk_which(size_t offset, uint64_t reciprocal, size_t *index)
{
    hk_wide product = (hk_wide)offset * reciprocal;
    *index = (size_t)(product >> 64);
    return (uint64_t)product < reciprocal;
}
/* Returns true if a block of the slab begins at an address in the slab's span. Stores the block's index in *index. */
HK_INLINE bool hk_slab_begins(const struct hk_slab *slab, uintptr_t address, size_t *index)
{
    return hk_which(address - slab->d.start, slab->reciprocal, index) && *index < slab->d.blocks;
}
HK_INLINE void *hk_slab_block(const struct hk_slab *slab, size_t index)
{
    return (void *)(slab->d.start + index * slab->d.block_size);
}
/* Returns the index of the block that contains an address. In the slab's tail, which holds no block, the index is higher than that of any block. */
HK_INLINE size_t hk_slab_index(const struct hk_slab *slab, uintptr_t address)
{
    size_t index;
    hk_which(address - slab->d.start, slab->reciprocal, &index);
    return index;
}
/* Returns true if the block at `index` is a cell of a joined block that begins at a lower index (see joined_blocks.h). */
HK_INLINE bool hk_slab_joins(const struct hk_slab *slab, size_t index)
{
    const _Atomic uint64_t *joined = hk_load_acquire(slab->xjoined);
    return joined != NULL && index < slab->d.blocks && (hk_load(joined[index / 64]) >> (index % 64) & 1) != 0;
}

/* Writes the owner into the slab and its page map entries. The holder calls this function to give the slab away, or after a change of slab->mixed. */
void hk_slab_hand_to(struct hk_slab *slab, uint32_t owner);
/* Allocates the n <= slab->free lowest free blocks. Stores them before `end`, the lowest in end[-1], so that a bin pops them in address order. */
void hk_slab_alloc(struct hk_slab *slab, void **end, unsigned n);

HK_INLINE void hk_slab_note_plain(struct hk_slab *slab)
{
    slab->plain_extent = slab->mixed || slab->track != NULL ? 0 : (size_t)slab->d.blocks * slab->d.block_size;
}

/* Ends the program. The message says either that the block is already free, or that `block` is not the start of a block. */
_Noreturn void hk_slab_refuse(const struct hk_slab *slab, const void *block);

/* Sets the free bit of the block *at. Returns false if the block does not lie in the slab, or if plain_extent is 0. Ends the program if *at is not
 * the start of a block, or is already free. Reads the slab's fields again for each block, because two blocks in a row seldom lie in one slab. */
HK_INLINE bool hk_slab_mark_free(struct hk_slab *slab, void *const *at)
{
    size_t offset = (uintptr_t)*at - slab->d.start, index;
    if (offset >= slab->plain_extent)
        return false;
    if (HK_UNLIKELY(!hk_which(offset, slab->reciprocal, &index)))
        hk_slab_refuse(slab, *at);
    size_t word = index / 64;
    if (HK_UNLIKELY(!hk_bit_set(&slab->freebits[word], index)))
        hk_slab_refuse(slab, *at);
    if (HK_UNLIKELY((uint16_t)word < slab->first_word))
        slab->first_word = (uint16_t)word;
    return true;
}

/* Adds blocks that hk_slab_mark_free() has marked to the slab's number of free blocks. Returns the new number. */
HK_INLINE unsigned hk_slab_count_free(struct hk_slab *slab, size_t marked)
{
    slab->pages &= HK_PAGES_FREED;
    return slab->free = (uint16_t)(slab->free + marked);
}

/* Stores that the holder has allocated blocks in the slab. The slab's purged parts then count as resident again. */
void hk_slab_note_taken(struct hk_slab *slab);
/* Stores which sixteenths of the slab are purged, as a set of bits. */
void hk_slab_note_clean(struct hk_slab *slab, uint16_t sixteenths);
/* Returns the purged bytes of all slabs, which are not resident. */
size_t hk_slabs_clean(void);
enum { HK_SLAB_SIXTEENTHS = 16 };

/* Block marks tell which medium blocks (of more than 32 KiB) the program has. A free, realloc or malloc_usable_size of such a block is checked before
 * it takes effect. Smaller blocks have no marks, because the check would make their hit path slower.
 *
 *   malloc: sets the mark of the block's first KiB to HK_MARK_LIVE     free, in any thread: ends the program if the mark is not live, else clears it
 *
 * A mark is HK_MARK_LIVE exactly while the program has the block that begins at the mark's address. If slabs of a user heap share a slice, the slice
 * has no medium blocks. The marks of this slice tell the class of each page's slab, and are never HK_MARK_LIVE. A slab's marks (see span/page_map.h)
 * are mapped before its first block is allocated, or never if the slab is outside the window, memory is refused, or hooks are on. The checks then
 * read the slab's bitmaps instead, which do not show that a block in a bin is free. Only the thread that has the block calls hk_mark_begin() and
 * hk_mark_end(). If two threads free one block at the same moment, both may find the mark. The flush of a bin then detects the second free. */
enum { HK_MARK_NONE = 0, HK_MARK_LIVE = UINT8_MAX };

/* Returns the mark of a page in a shared slice. It tells the class of the slab to which the page belongs. */
HK_INLINE uint8_t hk_mark_of_class(unsigned class) { return (uint8_t)(class + 1); }
_Static_assert((int)HK_CLASSES < (int)HK_MARK_LIVE, "no note says that a medium block is live");
/* Sets all marks of a range of pages to `note`, which is a mark of hk_mark_of_class() or HK_MARK_NONE. */
void hk_marks_note_pages(uintptr_t start, size_t bytes, uint8_t note);

/* Returns true if the entry belongs to a slab with blocks of more than HK_FINE_MAX bytes. Such a slab never holds joined blocks. */
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
/* Returns true if the mark says that a live block begins at `block`. Returns false if it does not, or if no mark is mapped. */
HK_INLINE bool hk_mark_is_live(const void *block, _Atomic uint8_t **mark)
{
    return HK_LIKELY(hk_page_map_has_mark((uintptr_t)block, mark)) &&
           HK_LIKELY((uintptr_t)block % (1 << HK_MARK_SHIFT) == 0) && HK_LIKELY(hk_load(**mark) == HK_MARK_LIVE);
}

/* Clears the mark of a block that is freed. Returns false if the mark was not set. The caller then calls hk_mark_check(), which finds the reason. */
HK_INLINE bool hk_mark_end_fast(const void *block)
{
    _Atomic uint8_t *mark;
    bool live = hk_mark_is_live(block, &mark);
    if (HK_LIKELY(live))
        hk_store(*mark, HK_MARK_NONE);
    return live;
}

/* Ends the program if `block` is not the start of a live block. The message names the call. `block` must lie in a slab of medium blocks. */
void hk_mark_check(enum hk_call call, const void *block);
/* Clears the mark of a block that is freed. Calls hk_mark_check() if the mark is not set. */
void hk_mark_end(enum hk_call call, const void *block);
/* In a fork child, marks every block that is not free in the slab as live. This includes the blocks in other threads' bins, which are lost. */
void hk_marks_assume(const struct hk_slab *slab);

/* These functions make and release slabs (slab_life.c). They also free the bitmaps that do not lie in the descriptor.
 *
 *   make: descriptor and bitmaps -> span -> page map entries     release free slab: clear entries -> free bitmaps and descriptor -> free span */

/* Returns a slab of free blocks that has no span yet. Its size is `bytes`. Its last `tail` bytes hold no block. `remote` is true if threads that do
 * not hold the slab may free its blocks. Returns NULL if the system refuses memory for the descriptor or the bitmaps. */
struct hk_slab *hk_slab_cut(unsigned class, size_t bytes, size_t tail, bool remote);
/* Returns the bytes of one bitmap of a slab. Each bitmap has cache lines of its own. */
HK_INLINE size_t hk_slab_bits_bytes(const struct hk_slab *slab)
{
    return hk_align_up(slab->words * sizeof(uint64_t), HK_CACHE_LINE);
}
/* Frees the descriptor and the bitmaps of a slab. */
void hk_slab_drop(struct hk_slab *slab);
/* Returns a new slab of free blocks for `owner`, or NULL if memory is refused. Any thread may call this function. */
struct hk_slab *hk_slab_make(unsigned class, uint32_t owner, enum hk_use use);
/* Frees the span and the descriptor of a slab. All its blocks must be free, and no thread may be about to count blocks or to queue the slab. */
void hk_slab_release(struct hk_slab *slab);
/* In a fork child, computes the slab's counts from its bitmaps, because fork may have interrupted the holder. */
void hk_slab_recount(struct hk_slab *slab);

/* Frees a block in a slab whose plain_extent is 0 (joined_blocks.c). Ends the program if plain_extent is not 0, because `block` lies beyond it. */
void hk_joined_free(struct hk_slab *slab, void *block);
/* Frees one block. Ends the program if no block of the slab begins at `block`, or if the block is already free. */
HK_INLINE void hk_slab_free(struct hk_slab *slab, void *block)
{
    if (hk_slab_mark_free(slab, &block))
        hk_slab_count_free(slab, 1);
    else
        hk_joined_free(slab, block);
}
