/* These functions are the guard's checks of a block when the program gets, resizes or frees the block.
 *
 *   block from a bin -> give_out: verify zeros, write the canary, mark as live -> program
 *   program -> take_back: check that the block is live, check the canary, zero, quarantine -> a block to free
 *
 * Invariant  While the protection `zero` is in force, the bytes of a block that the program does not have are zero.
 * Threads    Any thread may call these functions. */
#pragma once

#include "guard/states.h"
#include "os/os.h"
#include "policy/gate.h"

/* If the protection `pages` is in force, the pages of a freed block of at least this size are returned to the system, and fault until the block is
 * given out again. At that moment, the pages are zero. The block's pages after the requested bytes and the canary always fault. */
#define HK_GUARD_MEDIUM_FROM (128 * HK_KIB)
/* Frees check this many bytes on each side of a block: a free neighbor must be zero there, a live neighbor before the block needs a whole canary. */
enum { HK_NEIGHBORHOOD = 32 };
/* Returns the size to allocate for a request, including the canary and the page that faults behind a block of 128 KiB or more. */
HK_INLINE size_t hk_guard_size(size_t size)
{
    if (!hk_guard.contents || size > PTRDIFF_MAX)
        return size;
    size += sizeof(uint64_t);
    return size > HK_GUARD_MEDIUM_FROM - hk_system_page() && HK_GUARDS(pages) ? size + hk_system_page() : size;
}

/* Returns the bytes of a HAKMEM block, including its canary. */
size_t hk_guard_bytes(const void *block);

/* Gives the program a block of `bytes` for a request of `size`. Returns NULL if the system refuses memory. */
void *hk_guard_give_out(void *block, size_t bytes, size_t size, enum hk_kind kind);

/* Takes a block back from the program. Returns the block that the caller must free now: `block` or one from the quarantine. Returns NULL after a
 * fault, or if the quarantine keeps the block and releases no other. Large blocks do not enter the quarantine. */
void *hk_guard_take_back(enum hk_call call, void *block, enum hk_kind kind, size_t size);

/* These functions give out a block from a bin, and take the block back. Precondition: `state` is the block's state byte, and the block is smaller
 * than HK_GUARD_MEDIUM_FROM. hk_guard_retire_plain() does not use the quarantine. */
void *hk_guard_give_plain(void *block, size_t bytes, size_t size, enum hk_kind kind, hk_state_byte *state);
void hk_guard_retire_plain(enum hk_call call, void *block, size_t bytes, hk_state_byte *state);

/* Returns a block's requested size or, if canaries are off, its accessible bytes. Returns HK_SIZE_UNKNOWN after a fault or for a foreign block. */
size_t hk_guard_requested(enum hk_call call, const void *block);
/* Marks a block as free before a resize moves the block's pages, because the system may give the old address to another thread. Returns state bytes
 * for the new address. If the system refuses memory, returns NULL, and the caller must not move the block. */
hk_state_byte *hk_guard_passage_begin(const void *block);
/* Marks the block as live at its new address, or again at its old one. */
void hk_guard_passage_end(hk_state_byte *spare, const void *block, enum hk_kind kind);
/* Resizes a live block from `before` requested bytes to `size`. Returns false if the block has to move. Precondition: hk_guard.contents is true. */
bool hk_guard_resize(void *block, size_t before, size_t size);
/* Returns the requested size of a block without reporting a fault, or `size` if the block is not live or has no whole canary. */
size_t hk_guard_requested_quietly(const void *block, size_t size);
/* Returns the kind of function that allocated a live block. */
enum hk_kind hk_guard_kind(const void *block);

/* These functions check the size with which the program frees a block. A correct program passes every check. The size and alignment of a sized delete
 * must give the block's class or, for a large block, its size in whole pages, because memory of operator new is never resized. The class of a joined
 * block is not known exactly. Therefore any size passes. The caller must check that operator new is not replaced, because a replacement may return
 * any block. free_sized refuses only a size larger than the block, because realloc may leave a block longer than requested. */

/* Ends the program if the size cannot be that of a live block with this page map entry. */
void hk_sized_check(enum hk_call call, const void *block, uint32_t entry, size_t size);
/* Ends the program if a block of more than 32 KiB from an aligned operator new is not live, or cannot have this size. All other blocks pass. */
void hk_sized_check_aligned(const void *block, size_t size, size_t align);
