/* Each 16 bytes of the heap have a state byte. The state byte of a block's first 16 bytes tells whether the program has the block.
 *
 *   none --give_out--> busy -> live --take_back--> busy -> free --give_out--> busy -> live
 *
 * Owns       This file owns the state bytes, which are 128 KiB for each chunk with a block that was given out. The file also owns 1 MiB of addresses
 *            for 65536 blocks of 0 bytes, which fault when they are touched. A bit for each of these blocks is set while the program has the block.
 * Invariant  A state byte is live only while the program has the block. While a block is busy, only one thread uses the block and its state.
 * Threads    Any thread may read states. The thread that allocates or frees a block writes the block's state. */
#pragma once

#include "guard/guard.h"
#include "span/descriptor.h"

/* NONE says that no block was ever given out at this address. The low bits of a live byte say which kind of function allocated the block. */
enum hk_state { HK_STATE_NONE = 0, HK_STATE_BUSY = 0x20, HK_STATE_FREE = 0x40, HK_STATE_LIVE = 0x80 };
enum { HK_STATE_SHIFT = 4 };

typedef _Atomic uint8_t hk_state_byte;

/* Returns the struct hk_chunk of an address, or NULL if no struct is mapped. In the window, page map entries may be mapped where no structs are. */
HK_INLINE struct hk_chunk *hk_state_chunk(uintptr_t address)
{
    uintptr_t place = address - HK_LOAD_SETTLED(hk_window.base);
    struct hk_chunk *chunks = HK_LOAD_SETTLED(hk_window.chunks);
    if (HK_LIKELY(place < HK_LOAD_SETTLED(hk_window.flat)))
        return &chunks[place >> HK_CHUNK_SHIFT];
    if (chunks != NULL && place < HK_LOAD_SETTLED(hk_window.covered))
        return NULL;
    struct hk_leaf *leaf = hk_page_map_leaf(address);
    return leaf != NULL && hk_load_acquire(leaf->xentries) != NULL ? hk_page_map_chunk(address) : NULL;
}

HK_INLINE hk_state_byte *hk_state_in(const struct hk_chunk *chunk, uintptr_t address)
{
    hk_state_byte *states = hk_load_acquire(chunk->xstates);
    return HK_LIKELY(states != NULL) ? &states[(address & (HK_CHUNK - 1)) >> HK_STATE_SHIFT] : NULL;
}

/* Returns the state at an address. Returns NULL outside the window, or if no block was given out in the address's chunk. */
HK_INLINE hk_state_byte *hk_state_in_window(uintptr_t address)
{
    uintptr_t place = address - HK_LOAD_SETTLED(hk_window.base);
    if (HK_UNLIKELY(place >= HK_LOAD_SETTLED(hk_window.flat)))
        return NULL;
    return hk_state_in(&HK_LOAD_SETTLED(hk_window.chunks)[place >> HK_CHUNK_SHIFT], address);
}

/* Returns the state at any address, or NULL if no block was given out in the address's chunk. */
HK_INLINE hk_state_byte *hk_state_at(uintptr_t address)
{
    const struct hk_chunk *chunk = hk_state_chunk(address);
    return HK_LIKELY(chunk != NULL) ? hk_state_in(chunk, address) : NULL;
}

/* Returns state bytes for one chunk, or NULL if the system refuses. A resize calls this first, because a resize cannot fail after the move. */
hk_state_byte *hk_states_take_spare(void);
/* Returns the state at an address. If the address's chunk has no state bytes, gives `spare` to the chunk. The caller may no longer use `spare`. */
hk_state_byte *hk_state_make_from(uintptr_t address, hk_state_byte *spare);

/* Reports an invalid pointer in one line. Returns if hk_guard.leaves is true. Otherwise ends the program. */
void hk_guard_fault(enum hk_call call, const char *fault, const void *block);

/* Returns the fault of a pointer that is not a live block. Returns NULL for a foreign or bootstrap block, which the caller must not touch. */
const char *hk_guard_fault_of(const void *block);

/* Reserves the addresses of blocks of 0 bytes. Runs at the start. Returns false if the system refuses memory. */
bool hk_empties_begin(void);
/* Returns the address of a block of 0 bytes, or NULL if all such blocks are in use. */
void *hk_empty_alloc(void);
bool hk_is_empty(const void *p);
/* Frees a block of 0 bytes. Reports a fault if the block is not in use. Precondition: hk_is_empty(p). */
void hk_empty_free(enum hk_call call, const void *p);
