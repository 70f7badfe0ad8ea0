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

/* Blocks of this size or more are returned to the system when they are freed. They fault until they are given out again, and are then zero. The
 * pages behind the requested bytes always fault. */
#define HK_GUARD_MEDIUM_FROM (128 * HK_KIB)
/* A free checks so many bytes on both sides of a block. Free blocks must be zero, and the canary before the block must be whole. */
enum { HK_NEIGHBORHOOD = 32 };
/* Returns the size to allocate for a request. */
HK_INLINE size_t hk_guard_size(size_t size)
{
    if (!hk_guard.contents || size > PTRDIFF_MAX)
        return size;
    size += sizeof(uint64_t);
    return size > HK_GUARD_MEDIUM_FROM - hk_system_page() && HK_GUARDS(pages) ? size + hk_system_page() : size;
}

/* Returns the bytes of a block of HAKMEM, including its canary. */
size_t hk_guard_bytes(const void *block);

/* Gives the program a block of `bytes`. The program asked for `size` of them. Returns the block, NULL if memory for its state is refused. */
void *hk_guard_give_out(void *block, size_t bytes, size_t size, enum hk_kind kind);

/* Takes a block back. Returns the block that the caller must free now. This is `block`, another one that was in quarantine, or NULL. */
void *hk_guard_take_back(enum hk_call call, void *block, enum hk_kind kind, size_t size);

/* Do the same for a block of a bin, below HK_GUARD_MEDIUM_FROM, whose state is known. hk_guard_retire_plain() uses no quarantine. */
void *hk_guard_give_plain(void *block, size_t bytes, size_t size, enum hk_kind kind, hk_state_byte *state);
void hk_guard_retire_plain(enum hk_call call, void *block, size_t bytes, hk_state_byte *state);

/* Returns the requested size, or the block's size if that is unknown. Returns HK_SIZE_UNKNOWN after a fault or if the block is not HAKMEM's. */
size_t hk_guard_requested(enum hk_call call, const void *block);
/* Brackets a resize of a block by its pages, which may move. The block counts as free before the system can give its address to another thread.
 * Then it counts as live at its new place. */
struct hk_guard_passage {
    hk_state_byte *spare;
    uint8_t live;
};
/* Returns false if the system refuses memory. The block must then stay where it is. */
bool hk_guard_passage_begin(struct hk_guard_passage *passage, const void *block);
void hk_guard_passage_end(const struct hk_guard_passage *passage, const void *block);
/* Resizes a live block from `before` bytes in its place. Returns false if the block has to move. Precondition: the guard keeps contents. */
bool hk_guard_resize(void *block, size_t before, size_t size);
/* Does the same without reporting a fault. Returns HK_SIZE_UNKNOWN unless the block is live and its canary is whole. */
size_t hk_guard_requested_quietly(const void *block);
/* Returns the kind of function that allocated a live block. */
enum hk_kind hk_guard_kind(const void *block);

/* The next functions decide if a size that the program names for a block can be that of the block. No correct program is refused. For a sized delete,
 * the size and the alignment must give the block's class, because memory of operator new is never resized. The plain form passes for an aligned
 * block. A joined block is not compared, because its class is not known exactly. A block above 128 KiB may have its own mapping (if address space was
 * scarce), which has exactly the size in whole pages. The caller makes sure that the program has not replaced operator new, whose blocks may have any
 * size. free_sized refuses only a size that is larger than the block, because realloc keeps a block if at least half of it is used or no memory is
 * left to shrink it. */

/* Returns false if the size cannot be that of a live block with this page map entry. If `resizes` is true, realloc may have resized it. */
bool hk_sized_fits(const void *block, uint32_t entry, size_t size, bool resizes);
/* Ends the program if the size cannot be that of a live block with this page map entry. */
void hk_sized_check(enum hk_call call, const void *block, uint32_t entry, size_t size);
/* Does the same for memory of an aligned operator new. First checks a pointer that leads to a block of more than 32 KiB. All other blocks pass. */
void hk_sized_check_aligned(const void *block, size_t size, size_t align);

#endif
