/* Packed stack: a call stack in few bytes: the differences of successive frames, and the thread.
 * Invariant  unpacking yields the innermost frames that fit, unchanged: 17 at least, 40 and more of most stacks.
 * Threads    any; pure functions. */
#ifndef HK_PACKED_STACK_H
#define HK_PACKED_STACK_H

#include "prof/stack.h"

enum { HK_PACKED_BYTES = 176 };

struct hk_packed_stack {
    int thread; /* as the system numbers it; 0: no stack */
    uint16_t bytes;
    uint8_t packed[HK_PACKED_BYTES];
};

void hk_stack_pack(struct hk_packed_stack *packed, const struct hk_stack *stack, int thread);
void hk_stack_unpack(struct hk_stack *stack, const struct hk_packed_stack *packed);

#endif
