/* Sampled slots: the memory of sampled blocks: slots between guard pages.
 *
 *   | guard | slot 0 | guard | slot 1 | guard | ...       guard: one page; slot: 8 KiB, or one page where pages are larger
 *
 *   never used --take--> live: accessible --put--> freed: inaccessible, at the end of the queue
 *                         ^                                                  |
 *                         +------ take: no slot is unused; the first of the queue, after at least 80 later frees
 *
 * Owns       the slots, their queue, and the record of the block in each.
 * Invariant  only the pages of live blocks are accessible (unless the system refuses): of at most 48 slots, 384 KiB. A block touches the left or the
 *            right end of its slot, as near as its alignment allows. Up to 64 bytes beside it, on its pages, hold a pattern.
 * Threads    take, put: any (one lock, held over one system call). All else: any, without a lock, a signal handler too. The record of a slot that
 *            another thread is changing may be torn. */
#ifndef HK_SAMPLED_SLOTS_H
#define HK_SAMPLED_SLOTS_H

#include "prof/sampled_heap.h"
#include "prof/stack.h"

enum { HK_SLOTS = 128, HK_SLOTS_LIVE = 48 };

enum hk_slot_state { HK_SLOT_UNUSED, HK_SLOT_LIVE, HK_SLOT_FREED };

struct hk_slot {
    _Atomic uintptr_t xblock;
    _Atomic size_t xsize; /* bytes that the program requested */
    _Atomic uint8_t xstate;
    bool dirty; /* the system refused to bar the block's pages, so they keep their contents */
    struct hk_packed_stack allocated, freed;
};

extern struct hk_late_range hk_slot_range;
HK_INLINE bool hk_slots_hold(const void *p) { return hk_late_range_holds(&hk_slot_range, p); }

/* Registers the lock, at the start. */
void hk_slots_init(void);
/* Maps the slots if they are not mapped. Returns false if the system refuses or too many slots are live. The next call then tries again. */
bool hk_slots_open(void);

/* Returns a slot with an accessible, zeroed block of so many bytes. Returns NULL if the block does not fit, too many slots are live, or the system
 * refuses. `align` is a power of two. The caller must write the stack to `allocated` in place. A copy would take 184 bytes of the program's stack,
 * which may be small. */
struct hk_slot *hk_slot_take(size_t size, size_t align);

/* Says what a pointer into the slots is. */
enum hk_slot_find { HK_SLOT_BLOCK, HK_SLOT_FREE_ALREADY, HK_SLOT_INSIDE };

/* Frees the block. Returns HK_SLOT_BLOCK if it was a live block, otherwise changes nothing. Precondition: hk_slots_hold(block). */
enum hk_slot_find hk_slot_put(const void *block, const struct hk_packed_stack *by);
/* Returns what a pointer is, and changes nothing. */
enum hk_slot_find hk_slot_find(const void *block);

/* Returns the slot whose block is nearest to an address in the range. */
struct hk_slot *hk_slot_near(uintptr_t address);
/* Returns true if the address lies in the pages that the slot's block makes accessible. */
bool hk_slot_opens(const struct hk_slot *slot, uintptr_t address);
/* Returns the first byte beside the block that lost its pattern, 0 if none did. Precondition: the slot is live, and its block is the caller's. */
uintptr_t hk_slot_damage(const struct hk_slot *slot);

/* The number and the bytes of live blocks, and the bytes mapped for all slots. */
struct hk_slot_totals {
    size_t blocks, bytes, mapped;
};
struct hk_slot_totals hk_slots_total(void);

#endif
