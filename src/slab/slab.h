/* Slab: a run of units cut into blocks of one class; which of them are free is a bitmap, never a list through the blocks.
 *
 *   address -> map: leaf, chunk, unit -> struct hk_slab -> freebits: bit i is set while block i is free in the slab
 *
 * Owns       the slab descriptors, in chunks that are never unmapped, and the bitmaps.
 * Invariant  a block is free in its slab (its bit is set), or freed for it by a stranger (its remote bit is set, see remote.h), or
 *            in exactly one bin, depot or outbox, or with the user.
 * Threads    only the holder of the slab's handle takes or gives: the owner named by its page map entry, or, where that is
 *            HK_ORPHAN, whoever holds the orphans' lock of its class.
 * Never      touches the blocks. */
#ifndef HK_SLAB_H
#define HK_SLAB_H

#include "base/bits.h"
#include "base/list.h"
#include "policy/classes.h"
#include "span/page_heap.h"
#include "span/page_map.h"

enum {
    HK_NOBODY = 0,     /* owner of what is no slab: big blocks, free slices */
    HK_ORPHAN = 1,     /* owner of slabs whose thread has ended */
    HK_FIRST_OWNER = 2,
    HK_CLASS_BIG = HK_CLASSES, /* "class" of a big block's first unit */
};

/* Ages are told in steps of 64 ms: 16 bits of them are 70 minutes. */
enum { HK_AGE_SHIFT = 6 };
HK_INLINE uint16_t hk_age_stamp(uint64_t ms) { return (uint16_t)(ms >> HK_AGE_SHIFT); }
HK_INLINE uint16_t hk_age_since(uint16_t stamp, uint64_t now_ms) { return (uint16_t)(hk_age_stamp(now_ms) - stamp); }

/* What is known of the pages that no taken block lies on. */
enum hk_pages_state {
    HK_PAGES_TAKEN, /* since the last look blocks were taken: where they were, more will be */
    HK_PAGES_FREED, /* since the last look blocks only came back */
    HK_PAGES_AGEING = 1 << 1 | HK_PAGES_FREED,
    HK_PAGES_GONE = 1 << 2 | HK_PAGES_FREED, /* given back, all that can be */
};

struct hk_slab {
    /* constant while the slab lives */
    uintptr_t start;
    size_t bytes;      /* of the run; for a big block, of its mapping */
    uint64_t *freebits;
    uint64_t reciprocal; /* 2^64 / block size, rounded up (see hk_which()) */
    size_t extent;       /* bytes of all blocks; behind it a tail that is too short for one more */
    uint32_t block_size;
    uint16_t blocks;
    uint16_t words; /* of freebits, and of xremote */
    uint8_t class;
    bool altered; /* a big block, under its lock: the program has changed its mapping */
    bool huge;    /* a big block: huge pages were asked for */
    _Atomic bool xcommon;    /* an orphan that threads share, and nobody adopts (see orphans.h) */
    _Atomic uint32_t xowner; /* as its page map entries say */
    _Atomic uint64_t *xremote; /* bit i is set while block i is freed by a stranger, and nobody has claimed it (see remote.h) */
    /* the holder's */
    uint8_t pages HK_ALIGNED(HK_CACHE_LINE); /* enum hk_pages_state */
    bool mixed;          /* lodgers are in it, as its page map entries say (see lodge.h) */
    uint16_t free;
    uint16_t first_word; /* no bit is set in the words below */
    uint16_t idle_from;  /* since when it was not touched, while its pages are ageing (see slab_purge.h); of a big block, since when it is cached */
    uint16_t clean;      /* bit i: the slab's sixteenth i was given back, and no block has been taken since */
    uint16_t joined;     /* taken blocks that go with the one before them */
    uint16_t tried_free; /* when so many were free, */
    uint8_t tried_cells; /* no lodger of so many blocks found room; 0: none was turned away */
    struct hk_link link;
    union {
        uint64_t own_bits[2];     /* freebits of slabs of up to 128 blocks */
        struct hk_slab *child[2]; /* of a big block (see extents.h) */
    };
    union {
        size_t requested;     /* of a big block: bytes that the program has; what lies behind, to `bytes`, is spare */
        uint32_t trimmed; /* of another slab: the trim that last came by (see slab_purge.h) */
    };
    size_t plain_extent; /* the extent; 0 while lodgers are in it: none of its blocks need be one of its class */
    /* shared: a slab's, on a line that its holder seldom looks at */
    _Atomic(struct hk_slab *) xnext HK_ALIGNED(HK_CACHE_LINE); /* in an inbox */
    _Atomic uint32_t xstate;     /* twice the blocks counted and not claimed, and HK_REMOTE_QUEUED */
    uint32_t seen_remote;        /* of who has it out of an inbox: blocks that a sweep found, */
    uint32_t gone_remote;        /* bytes of them that went back to the system, */
    uint16_t seen_at;            /* and when it found them */
    _Atomic uint64_t xown_remote[2]; /* xremote of slabs of up to 128 blocks */
    /* of a big block */
    union {
        struct hk_link by_slack; /* linked while it is in use and has spare bytes */
        struct hk_link by_size;  /* while it is cached (see fit.h) */
    };
    union {
        uint64_t idle_since;     /* the spare, or all of a block in the cache */
        _Atomic(_Atomic uint64_t *) xjoined; /* of another slab, not of a big block: NULL until it takes its first lodger (see lodge.h) */
    };
} HK_ALIGNED(HK_CACHE_LINE);

void hk_slabs_init(void);

/* Visits all descriptors that were ever made, in use or not (start is 0 then). Any thread. */
typedef void hk_slab_visit(struct hk_slab *slab, void *context);
void hk_slabs_visit(hk_slab_visit *visit, void *context);

HK_INLINE uint32_t hk_entry(uint32_t owner, unsigned class)
{
    return owner << HK_ENTRY_OWNER_SHIFT | (uint32_t)class * HK_CLASS_BYTES;
}
/* In the page map entry of a slab that lodgers are in (see lodge.h): its blocks need not be of its class. */
#define HK_ENTRY_MIXED ((uint32_t)1 << 31)
HK_INLINE uint32_t hk_entry_owner(uint32_t entry) { return (entry & ~HK_ENTRY_MIXED) >> HK_ENTRY_OWNER_SHIFT; }
HK_INLINE bool hk_entry_is_mixed(uint32_t entry) { return (entry & HK_ENTRY_MIXED) != 0; }
/* Of a slab without lodgers that such an owner holds, or one with a higher number. By one compare: a mixed page map entry is below 0. */
HK_INLINE bool hk_entry_is_plain_from(uint32_t entry, uint32_t owner)
{
    return (int32_t)entry >= (int32_t)(owner << HK_ENTRY_OWNER_SHIFT);
}
/* Not a big block's, nor nobody's: its block is as large as its class is. */
HK_INLINE bool hk_entry_is_plain(uint32_t entry) { return hk_entry_is_plain_from(entry, HK_ORPHAN); }
HK_INLINE unsigned hk_entry_class(uint32_t entry) { return (entry & HK_ENTRY_CLASS_MASK) / HK_CLASS_BYTES; }

/* The slab at an address whose page map entry is not 0. */
HK_INLINE struct hk_slab *hk_slab_at(uintptr_t address) { return hk_load(*hk_page_map_slab(address)); }

HK_INLINE uint64_t hk_reciprocal(size_t size) { return (UINT64_MAX - 1) / size + 1; }

/* Which block an offset of less than 4 GiB lies in, by one multiplication. True where one begins: only then the rest of the division,
 * as parts of 2^64, is less than what one byte comes to. */
HK_INLINE bool hk_which(size_t offset, uint64_t reciprocal, size_t *index)
{
    hk_wide product = (hk_wide)offset * reciprocal;
    *index = (size_t)(product >> 64);
    return (uint64_t)product < reciprocal;
}

/* Which block an address lies in (the slab's tail counts on). */
HK_INLINE size_t hk_slab_index(const struct hk_slab *slab, uintptr_t address)
{
    size_t index;
    hk_which(address - slab->start, slab->reciprocal, &index);
    return index;
}

/* A descriptor without a run, for a block of its own mapping; NULL if the system refuses. */
struct hk_slab *hk_slab_descriptor(void);
void hk_slab_descriptor_drop(struct hk_slab *slab);

/* Whose the slab is, in its page map entries and here. Called by its holder, for the next one. */
void hk_slab_hand_to(struct hk_slab *slab, uint32_t owner);

/* A new slab, all free, for `owner`; NULL if the system refuses. */
struct hk_slab *hk_slab_make(unsigned class, uint32_t owner, enum hk_use use);
/* Its run goes back to span. All blocks must be free. */
void hk_slab_release(struct hk_slab *slab);

/* Moves the n <= free lowest blocks out; they end at `end`, the lowest last: popped from a bin, they come in address order. */
void hk_slab_alloc(struct hk_slab *slab, void **end, unsigned n);

_Noreturn void hk_slab_refuse(const struct hk_slab *slab, const void *block);

/* Marks *at as free; false if it does not lie in the slab, or lodgers do. Fatal if it is no block, or free already. All is read from the slab and
 * written to it, and nothing kept: of blocks that come in any order, few beside each other are of one slab. */
HK_INLINE bool hk_slab_mark_free(struct hk_slab *slab, void *const *at)
{
    size_t offset = (uintptr_t)*at - slab->start, index;
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

/* After so many were marked: how many are free now. */
HK_INLINE unsigned hk_slab_count_free(struct hk_slab *slab, size_t marked)
{
    slab->pages &= HK_PAGES_FREED;
    return slab->free = (uint16_t)(slab->free + marked);
}

/* The same in a slab that lodgers are in. Fatal as above; where no lodgers are in the slab, too. */
void hk_lodge_give(struct hk_slab *slab, void *block);

/* Gives one block back. Fatal if it is no block of the slab, or free already. */
HK_INLINE void hk_slab_free(struct hk_slab *slab, void *block)
{
    if (hk_slab_mark_free(slab, &block))
        hk_slab_count_free(slab, 1);
    else
        hk_lodge_give(slab, block);
}

/* The first block from `at` on whose bit is set, or, where `flip` is all ones, is not; the number of blocks if there is none. */
HK_INLINE unsigned hk_slab_find(const struct hk_slab *slab, const uint64_t *bits, unsigned at, uint64_t flip)
{
    for (; at < slab->blocks; at = (at / 64 + 1) * 64) {
        uint64_t word = (bits[at / 64] ^ flip) >> (at % 64);
        if (word != 0)
            return (unsigned)hk_min(at + hk_ctz64(word), slab->blocks);
    }
    return slab->blocks;
}

/* By its holder: blocks are taken. */
void hk_slab_note_taken(struct hk_slab *slab);

/* Notes which of the slab's sixteenths have been given back to the system; until a block is taken, when it is none. */
void hk_slab_note_clean(struct hk_slab *slab, uint16_t sixteenths);
/* Bytes of all slabs that have been given back and hold no page. */
size_t hk_slabs_clean(void);
enum { HK_SLAB_SIXTEENTHS = 16 };

/* For a slab whose holder was cut off by fork: makes the count fit the bitmap. */
void hk_slab_recount(struct hk_slab *slab);

/* Which call got the pointer. At a flush, when blocks go back to their slab, nobody knows any more: some free. */
enum hk_call { HK_CALL_FREE, HK_CALL_DELETE, HK_CALL_REALLOC, HK_CALL_USABLE_SIZE, HK_CALL_FLUSH };

/* The one message about pointers that cannot be freed, resized or asked about. */
_Noreturn void hk_slab_invalid(enum hk_call call, const char *what, const void *p);

#endif
