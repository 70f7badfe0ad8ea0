/* Slab: a span cut into blocks of one class. A bitmap says which of them are free; no list runs through the blocks.
 *
 *   address -> page map: chunk, slice -> struct hk_slab -> freebits: bit i is set while block i is free in the slab
 *
 * Owns       the bitmap, and the fields of the holder's line.
 * Invariant  a block is in one place: free in its slab (its bit is set), freed by another thread (its remote bit is set, see
 *            remote.h), in a bin, depot or outbox, or with the program.
 * Threads    only the holder allocates and frees: the owner that the page map entry names, or, where that is HK_ABANDONED, the thread
 *            that holds the abandoned slabs' lock of the class.
 * Never      touches the blocks. */
#ifndef HK_SLAB_H
#define HK_SLAB_H

#include "base/bits.h"
#include "span/descriptor.h"

/* State of the pages that hold no live block, since the sweep last looked. */
enum hk_pages_state {
    HK_PAGES_TAKEN, /* blocks were allocated: the class will allocate more here */
    HK_PAGES_FREED, /* blocks were only freed */
    HK_PAGES_AGEING = 1 << 1 | HK_PAGES_FREED,
    HK_PAGES_PURGED = 1 << 2 | HK_PAGES_FREED, /* purged, all that can be */
};

struct hk_slab {
    /* constant while the slab lives, but for xowner and xlist */
    struct hk_descriptor d;
    uint64_t *freebits;
    size_t extent;             /* bytes of all blocks; the tail behind it is too short for another */
    uint64_t reciprocal;       /* 2^64 / block size, rounded up (see hk_which()) */
    _Atomic uint64_t *xremote; /* bit i: block i was freed by another thread and is not yet claimed (see remote.h) */
    _Atomic uint32_t xowner;   /* as in the slab's page map entries */
    uint16_t words;            /* of freebits and of xremote */
    _Atomic uint8_t xlist;     /* enum hk_abandoned_list_id: its list while the slab is abandoned */
    /* the holder's */
    uint8_t pages HK_ALIGNED(HK_CACHE_LINE); /* enum hk_pages_state */
    bool mixed; /* holds joined blocks, as its page map entries say (see joined_blocks.h) */
    uint16_t free;
    uint16_t first_word; /* no bit is set in the words below */
    uint16_t idle_from;  /* when it was last touched, while its pages are ageing (see slab_purge.h) */
    uint16_t clean;      /* bit i: sixteenth i was purged, and no block has been allocated since */
    uint16_t joined;     /* live blocks that are joined to the block before them */
    uint16_t tried_free; /* the free blocks when a joined block of tried_cells blocks found no room */
    uint8_t tried_cells; /* 0: no joined block was turned away */
    struct hk_link link;
    uint64_t own_bits[2]; /* freebits of a slab of up to 128 blocks */
    uint32_t trimmed;     /* the last trim that visited the slab (see slab_purge.h) */
    uint16_t blank;      /* the last blocks that were never allocated, and are zero; 0: unknown (blocks up to 32 KiB) */
    size_t plain_extent; /* the extent; 0 while the slab holds joined blocks or is tracked: a block then needs a look */
    /* shared, on a line that the holder seldom reads */
    _Atomic(struct hk_slab *) xnext HK_ALIGNED(HK_CACHE_LINE); /* in an inbox */
    _Atomic uint32_t xstate;             /* twice the blocks counted and not claimed, plus HK_REMOTE_QUEUED */
    uint32_t seen_remote;                /* of the thread that took it out of an inbox: blocks that a sweep found, */
    uint32_t purged_remote;              /* bytes of them that were purged, */
    uint16_t seen_at;                    /* and when it found them */
    _Atomic uint64_t xown_remote[2];     /* xremote of a slab of up to 128 blocks */
    _Atomic(_Atomic uint64_t *) xjoined; /* NULL until the slab holds its first joined block (see joined_blocks.h) */
    _Atomic uint64_t *track;             /* constant: a word for each block; NULL: not tracked (see remote_track.h) */
    _Atomic bool xnoted;                 /* a word of the track was written */
} HK_ALIGNED(HK_CACHE_LINE);
_Static_assert(sizeof(struct hk_slab) == HK_DESCRIPTOR_BYTES, "a descriptor");
_Static_assert(offsetof(struct hk_slab, pages) == HK_CACHE_LINE && offsetof(struct hk_slab, xnext) == 2 * HK_CACHE_LINE,
               "the constants, the holder's fields and the shared fields have a line each");

/* Requires an address whose page map entry names a class of slabs. */
HK_INLINE struct hk_slab *hk_slab_at(uintptr_t address) { return (struct hk_slab *)(void *)hk_descriptor_at(address); }
/* Returns NULL if the descriptor is unused or a large block's. */
HK_INLINE struct hk_slab *hk_slab_of(struct hk_descriptor *descriptor)
{
    return descriptor->start != 0 && descriptor->class < HK_CLASSES ? (struct hk_slab *)(void *)descriptor : NULL;
}
/* The slab of a link on a list; NULL for NULL. */
HK_INLINE struct hk_slab *hk_slab_of_link(struct hk_link *link)
{
    return link != NULL ? hk_container_of(link, struct hk_slab, link) : NULL;
}
HK_INLINE uint64_t hk_reciprocal(size_t size) { return (UINT64_MAX - 1) / size + 1; }

/* Divides an offset of less than 4 GiB by the block size with one multiplication. Returns true if a block begins there, because only then the
 * remainder, in units of 2^-64, is less than the share of one byte. */
HK_INLINE bool hk_which(size_t offset, uint64_t reciprocal, size_t *index)
{
    hk_wide product = (hk_wide)offset * reciprocal;
    *index = (size_t)(product >> 64);
    return (uint64_t)product < reciprocal;
}
/* The block that an address lies in; in the tail, indexes continue. */
HK_INLINE size_t hk_slab_index(const struct hk_slab *slab, uintptr_t address)
{
    size_t index;
    hk_which(address - slab->d.start, slab->reciprocal, &index);
    return index;
}
/* Returns true if the block at `index` is a part of the joined block that begins before it (see joined_blocks.h). */
HK_INLINE bool hk_slab_joins(const struct hk_slab *slab, size_t index)
{
    const _Atomic uint64_t *joined = hk_load_acquire(slab->xjoined);
    return joined != NULL && index < slab->d.blocks && (hk_load(joined[index / 64]) >> (index % 64) & 1) != 0;
}

/* Writes the owner into the slab and its page map entries. Called by the holder, which gives the slab away. */
void hk_slab_hand_to(struct hk_slab *slab, uint32_t owner);
/* Allocates the n <= free lowest blocks. They end at `end`, the lowest last: a bin pops them in address order. */
void hk_slab_alloc(struct hk_slab *slab, void **end, unsigned n);

HK_INLINE void hk_slab_note_plain(struct hk_slab *slab)
{
    slab->plain_extent = slab->mixed || slab->track != NULL ? 0 : slab->extent;
}

/* Ends the program: the block is free already, or no block begins there. */
_Noreturn void hk_slab_refuse(const struct hk_slab *slab, const void *block);

/* Sets the free bit of *at. Returns false if the block does not lie in the slab, or the slab has no plain extent. Fatal if no block begins
 * there, or the block is free already. All fields are read from the slab and written to it, none is kept in a register: blocks that come
 * in any order seldom follow another of their slab. */
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

/* Counts blocks that were marked. Returns the number of free blocks. */
HK_INLINE unsigned hk_slab_count_free(struct hk_slab *slab, size_t marked)
{
    slab->pages &= HK_PAGES_FREED;
    return slab->free = (uint16_t)(slab->free + marked);
}
/* The first block from `at` on whose bit is set, or clear where `flip` is all ones; the number of blocks if there is none. */
HK_INLINE unsigned hk_slab_find(const struct hk_slab *slab, const uint64_t *bits, unsigned at, uint64_t flip)
{
    for (; at < slab->d.blocks; at = (at / 64 + 1) * 64) {
        uint64_t word = (bits[at / 64] ^ flip) >> (at % 64);
        if (word != 0)
            return (unsigned)hk_min(at + hk_ctz64(word), slab->d.blocks);
    }
    return slab->d.blocks;
}

/* Notes that the holder has allocated blocks. */
void hk_slab_note_taken(struct hk_slab *slab);
/* Notes the sixteenths of the slab that are purged. The note holds until a block is allocated. */
void hk_slab_note_clean(struct hk_slab *slab, uint16_t sixteenths);
/* Bytes of all slabs that were purged and hold no page. */
size_t hk_slabs_clean(void);
enum { HK_SLAB_SIXTEENTHS = 16 };

/* Block marks: which blocks of more than 32 KiB are with the program. Their free, realloc and malloc_usable_size are checked before they have
 * an effect: the hit path of smaller blocks has no instruction to spare, theirs has.
 *
 *   malloc: mark of the block's first KiB -> HK_MARK_LIVE           free: -> 0, in whatever thread; without a mark: fatal
 *
 * A mark is HK_MARK_LIVE exactly while the block that begins there is with the program. In slices that slabs of a heap share, which have no
 * medium blocks, marks are notes of that heap's: the class of the page's slab; no note has this value. A slab's marks (see span/page_map.h) are
 * mapped before the first of its blocks is handed out, or never. Where they are not (heap outside the window, memory refused, hooks on), the
 * slab's bitmaps are asked instead: they do not know a free block that waits in a bin.
 * Begin and end are for the thread that has the block. Two threads that free one block in the same moment may both find the mark; a flush finds
 * the second. */
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
/* In a fork child: assumes that every block of the slab that is not free in it is live, also those that lie in other threads' bins. */
void hk_marks_assume(const struct hk_slab *slab);

#endif
