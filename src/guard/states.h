/* States: says of every block whether the program has it. There is one byte for each 16 bytes of heap; that of a block's start holds the state.
 *
 *   none --give_out--> busy -> live --take_back--> busy -> free --give_out--> busy -> live
 *
 * Owns       the bytes, 128 KiB for each chunk in which a block was given out, found by the chunk. 1 MiB of addresses for 65536 blocks of 0 bytes,
 *            which fault when they are touched, and a bit for each, which is set while the program has the block.
 * Invariant  a live byte lies at the start of a block that the program has. While a block is busy, only one thread reads and changes its contents and
 *            byte.
 * Threads    any; a block's byte is written by the thread that allocates or frees it. */
#ifndef HK_STATES_H
#define HK_STATES_H

#include "guard/guard.h"
#include "span/descriptor.h"

/* NONE: no block starts here, or it was never given out. The low bits of a live byte say which kind of function allocated the block. */
enum hk_state { HK_STATE_NONE = 0, HK_STATE_BUSY = 0x20, HK_STATE_FREE = 0x40, HK_STATE_LIVE = 0x80 };
enum { HK_STATE_SHIFT = 4 };

typedef _Atomic uint8_t hk_state_byte;

/* Returns the chunk of any address, NULL if it is not covered. In the window, page map entries are mapped for whole leaves, and chunks are not. */
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

HK_INLINE hk_state_byte *hk_state_in(hk_state_byte *states, uintptr_t address)
{
    return &states[(address & (HK_CHUNK - 1)) >> HK_STATE_SHIFT];
}

/* Returns the state at an address. Returns NULL outside the window, or if no block was given out near the address. */
HK_INLINE hk_state_byte *hk_state_in_window(uintptr_t address)
{
    uintptr_t place = address - HK_LOAD_SETTLED(hk_window.base);
    if (HK_UNLIKELY(place >= HK_LOAD_SETTLED(hk_window.flat)))
        return NULL;
    hk_state_byte *states = hk_load_acquire(HK_LOAD_SETTLED(hk_window.chunks)[place >> HK_CHUNK_SHIFT].xstates);
    return HK_LIKELY(states != NULL) ? hk_state_in(states, address) : NULL;
}

/* Returns the state at any address, NULL if no block was given out near it. */
HK_INLINE hk_state_byte *hk_state_at(uintptr_t address)
{
    struct hk_chunk *chunk = hk_state_chunk(address);
    hk_state_byte *states = HK_LIKELY(chunk != NULL) ? hk_load_acquire(chunk->xstates) : NULL;
    return HK_LIKELY(states != NULL) ? hk_state_in(states, address) : NULL;
}

/* Returns state bytes for one chunk, NULL if the system refuses. A resize takes them first, because it cannot refuse once the block has moved. */
hk_state_byte *hk_states_take_spare(void);
/* Returns the state at an address. Uses `spare` if its chunk has no bytes. The caller must not use `spare` afterwards. */
hk_state_byte *hk_state_make_from(uintptr_t address, hk_state_byte *spare);

/* Returns the state of a block that is given out, and maps the bytes if necessary. Returns NULL if the system refuses. */
hk_state_byte *hk_state_make_slow(uintptr_t address);
HK_INLINE hk_state_byte *hk_state_make(uintptr_t address)
{
    hk_state_byte *state = hk_state_at(address);
    return HK_LIKELY(state != NULL) ? state : hk_state_make_slow(address);
}

/* Reports an invalid pointer in one line. Returns if faulty calls are left without effect. Otherwise ends the program. */
void hk_guard_fault(enum hk_call call, const char *fault, const void *block);

/* Returns the fault of a pointer that is no live block. Returns NULL if it is another allocator's block, which is left alone. */
const char *hk_guard_fault_of(const void *block);

/* Reserves the addresses of blocks of 0 bytes, at the start. Returns false if the system refuses memory. */
bool hk_empties_begin(void);
/* Returns the address of a block of 0 bytes, NULL if all are in use. */
void *hk_empty_alloc(void);
bool hk_is_empty(const void *p);
/* Frees a block of 0 bytes. Reports a fault if it is not in use. Precondition: hk_is_empty(p). */
void hk_empty_free(enum hk_call call, const void *p);

#endif
