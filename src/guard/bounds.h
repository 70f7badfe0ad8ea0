/* These functions find the bounds of the block that contains an address. The checks of copies use the bounds.
 *
 *   address -> page map entry -> slab -> one division by reciprocal -> block; a joined block by its joined bits
 *                             -> no slab: a memo of the extent, or a search in the extents of all large blocks
 *
 * Owns       This file owns the memos.
 * Invariant  For an address in a block that the program has, the answer is exact, because the block's slab, bits and size do not change
 *            before the block is freed. For any other address of HAKMEM's memory, the answer may be outdated.
 * Threads    Any thread and any signal handler may call these functions. The functions never wait for a lock.
 * Never      No function writes a block. The only bytes of a block that a function reads are those of the canary. */
#pragma once

#include "large/large_state.h"
#include "guard/block_checks.h"
#include "slab/slab.h"

/* UNKNOWN says that the memory is not HAKMEM's or lies in a user heap's slab, or that the lock of the large blocks is taken. If UNKNOWN has a size,
 * the address lies in a gap between large blocks. FREE says that the address lies in a free block or, if the size is 0, outside all blocks. */
enum hk_bounds_kind { HK_BOUNDS_UNKNOWN, HK_BOUNDS_BLOCK, HK_BOUNDS_FREE };

struct hk_bounds {
    enum hk_bounds_kind kind;
    uintptr_t start;
    size_t size; /* usable bytes; an address in the block's slack lies behind these bytes */
};

struct hk_bounds hk_block_bounds(uintptr_t address);
/* Returns the bytes from an address to the end of its large block or gap. Returns 0 if the address has no memo, or lies in the window. */
size_t hk_bounds_remembered(uintptr_t address);

/* Returns true if the program does not have the block. Precondition: the guard is on. */
bool hk_bounds_is_withheld(uintptr_t block);
/* Returns how many bytes of the block the program may use. `size` is that of the class, the joined cells, or the large block. If the canary is
 * broken, all these bytes count as usable, because the block's free will report the damage. */
HK_INLINE size_t hk_bounds_usable(uintptr_t block, size_t size)
{
    return HK_UNLIKELY(HK_LOAD_SETTLED(hk_guard.on)) ? hk_guard_requested_quietly((const void *)block, size) : size;
}

HK_INLINE bool hk_bounds_is_free(const struct hk_slab *slab, size_t index)
{
    bool free = (__atomic_load_n(&slab->freebits[index / 64], __ATOMIC_RELAXED) >> (index % 64) & 1) != 0;
    return free || (HK_UNLIKELY(HK_LOAD_SETTLED(hk_guard.on)) &&
                    hk_bounds_is_withheld(slab->d.start + index * slab->d.block_size));
}

/* Returns how many bytes from the address on surely lie in one live block or are not HAKMEM's. Returns 0 if the caller must ask hk_block_bounds(). */
HK_INLINE size_t hk_bounds_room(uintptr_t address)
{
    uintptr_t place = address - HK_LOAD_SETTLED(hk_window.base);
    if (place >= HK_LOAD_SETTLED(hk_window.flat)) {
        uintptr_t lowest = hk_load(hk_large.xlowest);
        if (HK_UNLIKELY(place < HK_LOAD_SETTLED(hk_window.covered)))
            return 0;
        if (address < lowest)
            return lowest - address;
        return HK_LIKELY(address >= hk_load(hk_large.xhighest)) ? SIZE_MAX : 0;
    }
    HK_READ_NO_EARLIER();
    if (HK_UNLIKELY(!hk_entry_is_plain(hk_load(HK_LOAD_SETTLED(hk_window.entries)[place >> HK_SLICE_SHIFT]))))
        return 0;
    struct hk_chunk *chunk = &HK_LOAD_SETTLED(hk_window.chunks)[place >> HK_CHUNK_SHIFT];
    const struct hk_slab *slab = (void *)hk_load(chunk->xdescriptor[(place >> HK_SLICE_SHIFT) % HK_CHUNK_SLICES]);
    size_t index = hk_slab_index(slab, address), size = slab->d.block_size;
    if (HK_UNLIKELY(index >= slab->d.blocks) || HK_UNLIKELY(hk_bounds_is_free(slab, index)))
        return 0;
    uintptr_t block = slab->d.start + index * size;
    size_t into = address - block, usable = hk_bounds_usable(block, size);
    return HK_LIKELY(into < usable) ? usable - into : 0;
}
