/* Block checks: what the guard does with a block when the program gets it, resizes it and frees it.
 *
 *   block from a bin -> give_out: verify zeros, canary, live -> program -> take_back: live? canary? zeros, quarantine -> a block to free
 *
 * Invariant  a block that the program does not have reads as zeros, where the protection `zero` is in force.
 * Threads    any. */
#ifndef HK_BLOCK_CHECKS_H
#define HK_BLOCK_CHECKS_H

#include "guard/states.h"
#include "os/os.h"
#include "policy/gate.h"

/* Blocks of this size and more are returned to the system when they are freed. They fault until they are given out again, and are zero then. The
 * pages behind the requested bytes always fault. */
#define HK_GUARD_MEDIUM_FROM (128 * HK_KIB)
/* The bytes on both sides of a block that a free verifies: free blocks are zero, and the canary before the block is whole. */
enum { HK_NEIGHBORHOOD = 32 };
/* The size to allocate for a request. */
HK_INLINE size_t hk_guard_size(size_t size)
{
    if (!hk_guard.contents || size > PTRDIFF_MAX)
        return size;
    size += sizeof(uint64_t);
    return size > HK_GUARD_MEDIUM_FROM - hk_system_page() && HK_GUARDS(pages) ? size + hk_system_page() : size;
}

/* Bytes of a block of HAKMEM's, its canary included. */
size_t hk_guard_bytes(const void *block);

/* Gives the program a block of `bytes`, of which it asked for `size`. Returns the block; NULL if memory for its state is refused. */
void *hk_guard_give_out(void *block, size_t bytes, size_t size, enum hk_kind kind);

/* Takes a block back. Returns the block that is to be freed now: this one, another one that was in quarantine, or NULL. */
void *hk_guard_take_back(enum hk_call call, void *block, enum hk_kind kind, size_t size);

/* The same for a block of a bin, below HK_GUARD_MEDIUM_FROM, whose state is known; take_back without the quarantine. */
void *hk_guard_give_plain(void *block, size_t bytes, size_t size, enum hk_kind kind, hk_state_byte *state);
void hk_guard_retire_plain(enum hk_call call, void *block, size_t bytes, hk_state_byte *state);

/* Returns the size that the program asked for, or the block's if unknown; HK_SIZE_UNKNOWN after a fault, and for a pointer that is not HAKMEM's. */
size_t hk_guard_requested(enum hk_call call, const void *block);
/* Brackets a resize of a block by its pages, which may move. The block counts as free before the system can give its address to another thread, and
 * then as live at its new place. */
struct hk_guard_passage {
    hk_state_byte *spare;
    uint8_t live;
};
/* False if the system refuses memory: the block has to stay. */
bool hk_guard_passage_begin(struct hk_guard_passage *passage, const void *block);
void hk_guard_passage_end(const struct hk_guard_passage *passage, const void *block);
/* Resizes a live block from `before` bytes in its place; false if it has to move. Only where the guard keeps contents. */
bool hk_guard_resize(void *block, size_t before, size_t size);
/* The same without a fault: HK_SIZE_UNKNOWN unless the block is live and its canary whole. */
size_t hk_guard_requested_quietly(const void *block);
/* The allocation function's kind of a live block. */
enum hk_kind hk_guard_kind(const void *block);

/* Sized: whether a size that the program names for a block can be that of the block. No correct program is refused. Sized delete: memory of operator
 * new is never resized, so that its class is that of size and alignment. The plain form of an aligned block passes. A joined block's class is not
 * known exactly, and not compared. Sizes above 128 KiB may have a mapping of their own (if address space was scarce), which has exactly the size in
 * whole pages. The caller makes sure that the program has not replaced operator new, whose blocks may have any size. free_sized: only a size that is
 * larger than the block is refused, because realloc keeps a block that is larger than the size if it wastes less than half, or if no memory is left
 * to shrink it. */

/* False if the size cannot be that of a live block with this page map entry. `resizes`: realloc may have resized it. */
bool hk_sized_fits(const void *block, uint32_t entry, size_t size, bool resizes);
/* Fatal if the size cannot be that of a live block with this page map entry. */
void hk_sized_check(enum hk_call call, const void *block, uint32_t entry, size_t size);
/* The same for memory of an aligned operator new. Checks the pointer first if it leads to a block of more than 32 KiB; all other blocks pass. */
void hk_sized_check_aligned(const void *block, size_t size, size_t align);

#endif
