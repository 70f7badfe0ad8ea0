/* Stack table: call stacks, each kept once, and found by a number.
 *
 *   stack --hash--> slot: the hash, the packed stack --> number
 *
 * Owns       the table of stacks, of a fixed size. The start makes it: threads that enter their first stacks at one moment,
 *            thousands of them, map nothing.
 * Invariant  a number stands for one stack for the life of the process. Where the table is nearly full, callers alone enter it; where it
 *            is full, or the start was refused memory for it, the number is 0.
 * Threads    any; no lock. A stack may be read while it is written: it has fewer frames then. */
#ifndef HK_STACK_TABLE_H
#define HK_STACK_TABLE_H

#include "prof/stack.h"

enum { HK_STACK_TABLE_SIZE = 4096 };

/* At start, where the table is wanted. False if memory is refused: stacks have no numbers then. */
bool hk_stack_table_make(void);

/* The number of a stack, from 1 on; 0 if there is none. */
uint32_t hk_stack_table_enter(const struct hk_stack *stack);
/* NULL for 0. Its thread is 0. */
const struct hk_packed_stack *hk_stack_table_get(uint32_t number);

/* A call stack in few bytes: the differences of successive frames, and the thread. Unpacking returns the innermost frames that fit, unchanged:
 * 17 at least, 40 and more of most stacks. */
enum { HK_PACKED_BYTES = 176 };

struct hk_packed_stack {
    int thread; /* as the system numbers it; 0: no stack */
    uint16_t bytes;
    uint8_t packed[HK_PACKED_BYTES];
};

void hk_stack_pack(struct hk_packed_stack *packed, const struct hk_stack *stack, int thread);
void hk_stack_unpack(struct hk_stack *stack, const struct hk_packed_stack *packed);

#endif
