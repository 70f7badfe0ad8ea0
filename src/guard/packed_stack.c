#include "guard/packed_stack.h"

enum { BITS_A_BYTE = 7, MORE = 1 << BITS_A_BYTE, MOST_BYTES = 10 };

/* The sign goes to the lowest bit, so that small differences of both signs are short. */
static uint64_t folded(uint64_t difference) { return difference << 1 ^ (0 - (difference >> 63)); }
static uint64_t unfolded(uint64_t folded) { return folded >> 1 ^ (0 - (folded & 1)); }

static unsigned put_varint(uint8_t *to, uint64_t number)
{
    unsigned n = 0;
    for (; number >= MORE; number >>= BITS_A_BYTE)
        to[n++] = (uint8_t)(number | MORE);
    to[n++] = (uint8_t)number;
    return n;
}

void hk_stack_pack(struct hk_packed_stack *packed, const struct hk_stack *stack, int thread)
{
    uintptr_t before = 0;
    unsigned used = 0;
    for (unsigned i = 0; i < stack->depth && used + MOST_BYTES <= HK_PACKED_BYTES; i++) {
        uintptr_t frame = (uintptr_t)stack->frames[i];
        used += put_varint(packed->packed + used, folded(frame - before));
        before = frame;
    }
    /* Of a stack that is entered once and read by its number (places.c): who sees the length sees what it is the length of. */
    __atomic_store_n(&packed->bytes, (uint16_t)used, __ATOMIC_RELEASE);
    packed->thread = thread;
}

/* A reader in a signal handler may see a stack that is just being written: each loop ends all the same. */
void hk_stack_unpack(struct hk_stack *stack, const struct hk_packed_stack *packed)
{
    unsigned whole = __atomic_load_n(&packed->bytes, __ATOMIC_ACQUIRE),
             bytes = whole < HK_PACKED_BYTES ? whole : HK_PACKED_BYTES;
    uintptr_t frame = 0;
    stack->depth = 0;
    for (unsigned at = 0; at < bytes && stack->depth < HK_STACK_MOST;) {
        uint64_t number = 0;
        unsigned shift = 0;
        for (; at < bytes - 1 && (packed->packed[at] & MORE) != 0 && shift < 63; shift += BITS_A_BYTE)
            number |= (uint64_t)(packed->packed[at++] & (MORE - 1)) << shift;
        number |= (uint64_t)packed->packed[at++] << shift;
        frame += unfolded(number);
        stack->frames[stack->depth++] = (void *)frame;
    }
}
