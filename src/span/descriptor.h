/* Descriptor: describes a slab or a large block. One look-up in the page map finds the descriptor from any address in the slab or block.
 *
 *   address -> page map: chunk, slice -> struct hk_descriptor, the common head -> then the fields of a slab or a large block
 *
 * Owns       This file owns the table of descriptors, whose memory is never returned to the system. It defines how a page map entry is packed and how
 *            ages are stored.
 * Invariant  A stale pointer still leads to a readable descriptor. This descriptor may describe another slab or block by then, or be unused. The
 *            `start` of an unused descriptor is 0.
 * Threads    Any thread may call new, drop and visit. Only new and drop take a lock. slab/slab.h and large/large_state.h say who may use the fields.
 * Never      reads a field beyond the head. */
#ifndef HK_DESCRIPTOR_H
#define HK_DESCRIPTOR_H

#include "base/message.h"
#include "policy/classes.h"
#include "span/page_map.h"

enum {
    HK_NOBODY = 0,    /* owner of memory that is in no slab: large blocks, free slices */
    HK_ABANDONED = 1, /* owner of slabs whose thread has ended */
    HK_FIRST_OWNER = 2,
    HK_OWNERS_END = 448 * 1024,     /* the number after the last one that a thread may have */
    HK_FIRST_HEAP = HK_OWNERS_END,  /* the number of the first heap that the program creates (heaps/heaps.h) */
    HK_ENDED_HEAP = 512 * 1024 - 1, /* owner of the slices of an ended heap until the slices are reused */
    HK_CLASS_LARGE = HK_CLASSES,    /* the class in the page map entry of a large block's first slice */
    HK_CLASS_SHARED,                /* the class in the page map entry of a slice that several slabs of a heap share */
};

enum { HK_DESCRIPTOR_BYTES = 3 * HK_CACHE_LINE };

/* Begins each descriptor of a slab or of a large block. Code that does not know which of the two it has found reads only this head. */
struct hk_descriptor {
    uintptr_t start;     /* 0: the descriptor is unused */
    size_t bytes;        /* the size of the span or the mapping */
    uint32_t block_size; /* UINT32_MAX also for larger blocks */
    uint16_t blocks;
    uint8_t class; /* HK_CLASS_LARGE: a large block */
};

void hk_descriptors_init(void);
/* Returns a descriptor that is aligned to a cache line, and whose bytes after the head are zero. Returns NULL if the system refuses memory. */
struct hk_descriptor *hk_descriptor_new(void);
void hk_descriptor_drop(struct hk_descriptor *descriptor);

/* Visits all descriptors that were ever made, including the unused ones. */
typedef void hk_descriptor_visit(struct hk_descriptor *descriptor, void *context);
void hk_descriptors_visit(hk_descriptor_visit *visit, void *context);

/* Returns the descriptor of an address whose page map entry is not 0. */
HK_INLINE struct hk_descriptor *hk_descriptor_at(uintptr_t address)
{
    return hk_load(*hk_page_map_descriptor(address));
}
HK_INLINE uint32_t hk_entry(uint32_t owner, unsigned class)
{
    return owner << HK_ENTRY_OWNER_SHIFT | (uint32_t) class * HK_CLASS_BYTES;
}
/* HK_ENTRY_MIXED is set in the entries of a slab with joined blocks (slab/joined_blocks.h), because these blocks do not have the slab's class. */
#define HK_ENTRY_MIXED ((uint32_t)1 << 31)
HK_INLINE uint32_t hk_entry_owner(uint32_t entry) { return (entry & ~HK_ENTRY_MIXED) >> HK_ENTRY_OWNER_SHIFT; }
HK_INLINE bool hk_entry_is_mixed(uint32_t entry) { return (entry & HK_ENTRY_MIXED) != 0; }
/* Returns true if the entry is that of a slab without joined blocks, and has an owner of at least `owner`. A mixed entry is negative when signed, so
 * one comparison is enough. */
HK_INLINE bool hk_entry_is_plain_from(uint32_t entry, uint32_t owner)
{
    return (int32_t)entry >= (int32_t)(owner << HK_ENTRY_OWNER_SHIFT);
}
/* Returns true if the entry is that of a slab without joined blocks. All blocks of such a slab have the class of the entry. */
HK_INLINE bool hk_entry_is_plain(uint32_t entry) { return hk_entry_is_plain_from(entry, HK_ABANDONED); }
HK_INLINE unsigned hk_entry_class(uint32_t entry) { return (entry & HK_ENTRY_CLASS_MASK) / HK_CLASS_BYTES; }

/* Page map entries of at least this value belong to heaps that the program creates, even after the end of the heap. These entries are mixed, so that
 * a free in such a heap is never a hit. */
#define HK_ENTRY_HEAPS ((uint32_t)HK_FIRST_HEAP << HK_ENTRY_OWNER_SHIFT | HK_ENTRY_MIXED)
#define HK_ENTRY_ENDED (hk_entry(HK_ENDED_HEAP, HK_CLASS_SHARED) | HK_ENTRY_MIXED)
/* HK_ENTRY_ENDED_LARGE is the entry of the first slice of a large block whose heap has ended. */
#define HK_ENTRY_ENDED_LARGE (hk_entry(HK_ENDED_HEAP, HK_CLASS_LARGE) | HK_ENTRY_MIXED)
/* HK_ENTRY_EMPTIED is the entry of a slice whose last block was freed before its heap ended. */
#define HK_ENTRY_EMPTIED (hk_entry(HK_ENDED_HEAP, 0) | HK_ENTRY_MIXED)
HK_INLINE bool hk_entry_is_heap(uint32_t entry) { return entry >= HK_ENTRY_HEAPS; }
HK_INLINE bool hk_entry_is_left(uint32_t entry) { return hk_entry_owner(entry) == HK_ENDED_HEAP; }
HK_INLINE bool hk_entry_is_large(uint32_t entry) { return entry != 0 && hk_entry_class(entry) == HK_CLASS_LARGE; }

/* Age stamps count steps of 64 ms, so that 16 bits span 70 minutes, which is longer than any purge delay. */
enum { HK_AGE_SHIFT = 6 };
HK_INLINE uint16_t hk_age_stamp(uint64_t ms) { return (uint16_t)(ms >> HK_AGE_SHIFT); }
/* Returns the time since a stamp in ms, in whole steps. */
HK_INLINE uint64_t hk_age_since(uint16_t stamp, uint64_t now_ms)
{
    return (uint64_t)(uint16_t)(hk_age_stamp(now_ms) - stamp) << HK_AGE_SHIFT;
}

/* Names the call that received a pointer. HK_CALL_FLUSH stands for a free whose fault was found only at a flush, which moves blocks back to their
 * slabs. By then, the kind of free is no longer known. */
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

/* HK_SIZE_UNKNOWN is the size of a block if the program does not name it. */
#define HK_SIZE_UNKNOWN SIZE_MAX

/* Ends the program with the message about a pointer that cannot be freed, resized or measured. */
_Noreturn void hk_invalid_pointer(enum hk_call call, const char *fault, const void *p);
/* Prints the message of hk_invalid_pointer(), and returns. */
void hk_report_pointer(enum hk_call call, const char *fault, const void *p);
/* Ends the program with a message about a size that cannot be the size of the block. */
_Noreturn void hk_invalid_size(enum hk_call call, size_t size, const void *block);

#endif
