/* Bounds: the block that an address lies in, for checks of copies into and out of blocks.
 *
 *   address -> page map entry -> slab -> one division by reciprocal -> block; a joined block by its joined bits
 *           -> large block: by its first slice, else by the extents of all large blocks, remembered in a table of memos
 *
 * Owns       the memos.
 * Invariant  exact for an address in a block that the program has, because neither its slab nor its joined bits nor its free bit nor its large
 *            block's size change until its free. For any other address of HAKMEM's memory, the answer may be that of a moment ago.
 * Threads    any, also in signal handlers: waits for no lock.
 * Never      reads or writes a block. */
#ifndef HK_BOUNDS_H
#define HK_BOUNDS_H

#include "large/large_state.h"
#include "guard/guard.h"
#include "slab/slab.h"

/* UNKNOWN: the memory is not HAKMEM's, or the lock of the large blocks was taken. A size other than 0 is then that of the gap between two blocks.
 * FREE: a free block or, if the size is 0, free memory without a block. */
enum hk_bounds_kind { HK_BOUNDS_UNKNOWN, HK_BOUNDS_BLOCK, HK_BOUNDS_FREE };

struct hk_bounds {
    enum hk_bounds_kind kind;
    uintptr_t start;
    size_t size; /* bytes; an address in slack or rounding lies behind them */
};

struct hk_bounds hk_block_bounds(uintptr_t address);
/* Returns the bytes from an address outside the window to the end of its large block or gap, if a memo has it. Returns 0 if not. */
size_t hk_bounds_remembered(uintptr_t address);

/* The first returns true if the program does not have the block, the second the bytes before the canary. Precondition: the guard is on. */
bool hk_bounds_is_withheld(uintptr_t block);
size_t hk_bounds_usable_guarded(uintptr_t block, size_t size);
/* Returns the bytes that the program may use of the block. `size` is that of its class, its cells or its mapping. */
HK_INLINE size_t hk_bounds_usable(uintptr_t block, size_t size)
{
    return HK_UNLIKELY(HK_LOAD_SETTLED(hk_guard.on)) ? hk_bounds_usable_guarded(block, size) : size;
}

HK_INLINE bool hk_bounds_is_free(const struct hk_slab *slab, size_t index)
{
    bool free = (__atomic_load_n(&slab->freebits[index / 64], __ATOMIC_RELAXED) >> (index % 64) & 1) != 0;
    return free || (HK_UNLIKELY(HK_LOAD_SETTLED(hk_guard.on)) &&
                    hk_bounds_is_withheld(slab->d.start + index * slab->d.block_size));
}

/* Returns the room of an address that is not in a slab of the window. */
HK_INLINE size_t hk_bounds_room_outside(uintptr_t address, uintptr_t place)
{
    uintptr_t lowest = hk_load(hk_large.xlowest);
    if (HK_UNLIKELY(place < HK_LOAD_SETTLED(hk_window.covered)))
        return 0;
    if (address < lowest)
        return lowest - address;
    return HK_LIKELY(address >= hk_load(hk_large.xhighest)) ? SIZE_MAX : 0;
}

/* Returns the bytes from the address on that surely belong to one block, or are not HAKMEM's. Returns 0 if only hk_block_bounds() can tell. */
HK_INLINE size_t hk_bounds_room(uintptr_t address)
{
    uintptr_t place = address - HK_LOAD_SETTLED(hk_window.base);
    if (place >= HK_LOAD_SETTLED(hk_window.flat))
        return hk_bounds_room_outside(address, place);
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

#endif
