/* The memory of sampled blocks consists of slots between guard pages.
 *
 *   | guard | slot 0 | guard | slot 1 | guard | ...       guard: one page; slot: 8 KiB, or one page if pages are larger
 *
 *   never used --take--> live: accessible --put--> freed: inaccessible, at the end of the queue
 *                         ^                                                  |
 *                         +------ take: the first slot of the queue; unused slots come first, and a freed slot after at least 80 later frees
 *
 * Owns       This file owns the slots, their queue, and the record of the block in each slot.
 * Invariant  Only the pages of live blocks are accessible, unless the system refuses. At most 48 slots (384 KiB) are live. A block lies at the
 *            left or the right end of its slot, as near as its alignment allows. Up to 64 bytes on each side of the block hold a pattern.
 * Threads    Any thread may take and put slots, and then holds one lock during a system call. Any thread or signal handler may call the
 *            other functions, which take no lock. If another thread is changing a record, the other functions may find wrong values in it. */
#pragma once

#include "prof/stack.h"
#include "span/descriptor.h"

enum { HK_SLOTS = 128, HK_SLOTS_LIVE = 48 };

enum hk_slot_state { HK_SLOT_UNUSED, HK_SLOT_LIVE, HK_SLOT_FREED };

struct hk_slot {
    _Atomic uintptr_t xblock;
    _Atomic size_t xsize; /* bytes that the program requested */
    _Atomic uint8_t xstate;
    bool dirty; /* the system refused to bar the block's pages, so the pages keep their contents */
    struct hk_packed_stack allocated, freed;
};

/* Holds the range of the addresses of all slots. Both fields are 0 until the slots are mapped. */
struct hk_slot_range {
    _Atomic uintptr_t xstart;
    _Atomic size_t xbytes;
};
extern struct hk_slot_range hk_slot_range;
HK_INLINE bool hk_slots_hold(const void *p)
{
    size_t bytes = hk_load_acquire(hk_slot_range.xbytes);
    return (uintptr_t)p - hk_load(hk_slot_range.xstart) < bytes;
}

void hk_slots_init(void);

/* Returns a slot with an accessible, zeroed block of `size` bytes. The first call maps the slots. Returns NULL if the block does not fit, too many
 * slots are live, or the system refuses. A later call may succeed. `align` is a power of two. The caller must write the call stack directly to the
 * slot's `allocated`, because a copy would take 184 bytes of the thread's stack, which may be small. */
struct hk_slot *hk_slot_take(size_t size, size_t align);

/* Says whether a pointer into the slots is a live block, a freed block, or another address. */
enum hk_slot_find { HK_SLOT_BLOCK, HK_SLOT_FREE_ALREADY, HK_SLOT_INSIDE };

/* Frees a live block, and returns HK_SLOT_BLOCK. For any other pointer, only returns what the pointer is. Precondition: hk_slots_hold(block). */
enum hk_slot_find hk_slot_put(const void *block, const struct hk_packed_stack *by);
/* Returns what a pointer into the slots is, and changes no slot. */
enum hk_slot_find hk_slot_find(const void *block);

/* Returns the slot whose block is nearest to an address in the range. */
struct hk_slot *hk_slot_near(uintptr_t address);
/* Returns true if the address lies in the pages that the slot's block makes accessible. */
bool hk_slot_opens(const struct hk_slot *slot, uintptr_t address);
/* Returns the address of the first damaged byte of the pattern beside the block, or 0. Precondition: the caller has the slot's live block. */
uintptr_t hk_slot_damage(const struct hk_slot *slot);

size_t hk_slots_live(void);
