/* Descriptor: describes a slab or a large block. One look-up in the page map finds it for an address in a slab or in a large block's first slice.
 *
 *   address -> page map -> chunk: pointer for the slice -> descriptor: head (struct hk_descriptor), then fields of a slab or large block
 *
 * Owns       This file owns all descriptors, whose memory is never returned to the system. This file also defines page map entries and age stamps.
 * Invariant  A stale pointer to a descriptor stays readable, but the descriptor may be unused by then, or describe another slab or large block.
 * Threads    Any thread may call these functions. hk_descriptor_new() and hk_descriptor_drop() take a lock.
 * Never      No function of this file reads a field beyond the head. slab/slab.h and large/large_state.h say who may use those fields. */
#pragma once

#include "policy/classes.h"
#include "span/page_map.h"

enum {
    HK_NOBODY = 0,    /* the owner of large blocks and of free slices, which no thread owns */
    HK_ABANDONED = 1, /* the owner of slabs that no thread owns, for example because their thread has ended */
    HK_FIRST_OWNER = 2,
    HK_OWNERS_END = 448 * 1024,     /* one more than the highest number that a thread may have */
    HK_FIRST_HEAP = HK_OWNERS_END,  /* the number of the first heap that the program creates (heaps/heaps.h) */
    HK_ENDED_HEAP = 512 * 1024 - 1, /* owner of the slices of a destroyed heap until the slices are reused */
    HK_CLASS_LARGE = HK_CLASSES,    /* the class in the page map entry of a large block's first slice */
    HK_CLASS_SHARED,                /* the class in the page map entry of a slice that several slabs of a heap share */
};

enum { HK_DESCRIPTOR_BYTES = 3 * HK_CACHE_LINE };

/* Begins the descriptors of slabs and of large blocks. Code that does not know which of the two it has found reads only this head. */
struct hk_descriptor {
    uintptr_t start;     /* address of the span or of the large block; 0 if the descriptor is unused */
    size_t bytes;        /* size of the span, or of the large block's mapping */
    uint32_t block_size; /* size of each block; UINT32_MAX for a large block of this size or more */
    uint16_t blocks;     /* number of blocks */
    uint8_t class;       /* size class of the blocks; HK_CLASS_LARGE for a large block */
};

void hk_descriptors_init(void);
/* Where `hakmem` finds the table in a core file: the newest group, the offset of its first slot, and its size in bytes. */
extern const uintptr_t hk_descriptors_layout[];
/* Returns a descriptor that is aligned to a cache line, and whose bytes after the head are zero. Returns NULL if the system refuses memory. */
struct hk_descriptor *hk_descriptor_new(void);
void hk_descriptor_drop(struct hk_descriptor *descriptor);

/* Calls `visit` for each descriptor that was ever made, including the unused ones. */
void hk_descriptors_visit(void (*visit)(struct hk_descriptor *descriptor, void *context), void *context);

/* Returns the descriptor of an address whose page map entry is not 0. */
HK_INLINE struct hk_descriptor *hk_descriptor_at(uintptr_t address)
{
    return hk_load(*hk_page_map_descriptor(address));
}
HK_INLINE uint32_t hk_entry(uint32_t owner, unsigned class)
{
    return owner << HK_ENTRY_OWNER_SHIFT | (uint32_t) class * HK_CLASS_BYTES;
}
/* HK_ENTRY_MIXED is set in the entries of a slab with joined blocks (slab/joined_blocks.h), which are larger than the slab's other blocks. */
#define HK_ENTRY_MIXED ((uint32_t)1 << 31)
HK_INLINE uint32_t hk_entry_owner(uint32_t entry) { return (entry & ~HK_ENTRY_MIXED) >> HK_ENTRY_OWNER_SHIFT; }
HK_INLINE bool hk_entry_is_mixed(uint32_t entry) { return (entry & HK_ENTRY_MIXED) != 0; }
/* Returns true if the entry's owner number is at least `owner`, and the entry is not mixed (the slab has no joined blocks). One comparison suffices,
 * because HK_ENTRY_MIXED is the sign bit, which makes a mixed entry negative. */
HK_INLINE bool hk_entry_is_plain_from(uint32_t entry, uint32_t owner)
{
    return (int32_t)entry >= (int32_t)(owner << HK_ENTRY_OWNER_SHIFT);
}
/* Returns true if the entry belongs to a slab without joined blocks. All blocks of such a slab have the class of the entry. */
HK_INLINE bool hk_entry_is_plain(uint32_t entry) { return hk_entry_is_plain_from(entry, HK_ABANDONED); }
HK_INLINE unsigned hk_entry_class(uint32_t entry) { return (entry & HK_ENTRY_CLASS_MASK) / HK_CLASS_BYTES; }

/* The page map entries of user heaps, also of destroyed ones, are at least HK_ENTRY_HEAPS. HK_ENTRY_MIXED keeps them from the hit path. */
#define HK_ENTRY_HEAPS ((uint32_t)HK_FIRST_HEAP << HK_ENTRY_OWNER_SHIFT | HK_ENTRY_MIXED)
#define HK_ENTRY_ENDED (hk_entry(HK_ENDED_HEAP, HK_CLASS_SHARED) | HK_ENTRY_MIXED)
/* HK_ENTRY_ENDED_LARGE is the entry of the first slice of a large block whose heap was destroyed. */
#define HK_ENTRY_ENDED_LARGE (hk_entry(HK_ENDED_HEAP, HK_CLASS_LARGE) | HK_ENTRY_MIXED)
/* HK_ENTRY_EMPTIED is the entry of a slice whose last block was freed before the heap was destroyed. */
#define HK_ENTRY_EMPTIED (hk_entry(HK_ENDED_HEAP, 0) | HK_ENTRY_MIXED)
HK_INLINE bool hk_entry_is_heap(uint32_t entry) { return entry >= HK_ENTRY_HEAPS; }
HK_INLINE bool hk_entry_is_left(uint32_t entry) { return hk_entry_owner(entry) == HK_ENDED_HEAP; }
HK_INLINE bool hk_entry_is_large(uint32_t entry) { return entry != 0 && hk_entry_class(entry) == HK_CLASS_LARGE; }

/* An age stamp is a time in steps of 64 ms. Its 16 bits wrap around after 70 minutes, which is longer than any purge delay. */
enum { HK_AGE_SHIFT = 6 };
HK_INLINE uint16_t hk_age_stamp(uint64_t ms) { return (uint16_t)(ms >> HK_AGE_SHIFT); }
/* Returns the time from a stamp to now_ms, in ms, rounded to steps of 64 ms. */
HK_INLINE uint64_t hk_age_since(uint16_t stamp, uint64_t now_ms)
{
    return (uint64_t)(uint16_t)(hk_age_stamp(now_ms) - stamp) << HK_AGE_SHIFT;
}

/* Names the call that received an invalid pointer. HK_CALL_FLUSH means that the fault was found later, by a flush, by malloc, or at exit. By
 * then, it is no longer known which function freed the block. */
enum hk_call {
    HK_CALL_FREE,
    HK_CALL_FREE_SIZED,
    HK_CALL_DELETE,
    HK_CALL_DELETE_SIZED,
    HK_CALL_DELETE_ARRAY,
    HK_CALL_REALLOC,
    HK_CALL_USABLE_SIZE,
    HK_CALL_MALLOC,
    HK_CALL_FLUSH
};

#define HK_SIZE_UNKNOWN SIZE_MAX

/* Ends the program with the message about a pointer that cannot be freed, resized or measured. */
_Noreturn void hk_invalid_pointer(enum hk_call call, const char *fault, const void *p);
/* Prints the message of hk_invalid_pointer(), but does not end the program. */
void hk_report_pointer(enum hk_call call, const char *fault, const void *p);
/* Ends the program with a message about a size that cannot be the size of the block. */
_Noreturn void hk_invalid_size(enum hk_call call, size_t size, const void *block);
