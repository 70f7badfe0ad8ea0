/* Stack: captures call stacks with the unwind tables of modules, and with frame pointers in code that has no unwind table. Packs the stacks. A table
 * keeps each packed stack once, and gives the stack a number.
 *
 *   stack --hash--> slot: the hash, the packed stack --> number
 *
 * Owns       This file owns the table of stacks, which has a fixed size. HAKMEM's start maps the table, so that no thread needs a lock.
 * Invariant  A capture takes no lock, allocates nothing, loads no module, and needs about a kilobyte of stack. A broken frame cannot crash the
 *            capture: before a page is read, the system is asked whether the page is readable. If the page is not readable, the stack ends there. A
 *            number stands for the same stack until the process ends. If the table is nearly full, only the first frame of a new stack is kept. If
 *            the table is full or has no memory, the number is 0.
 * Threads    Any thread and any signal handler may call the functions, which take no lock. A reader may see part of a stack that is being written. */
#pragma once

#include "base/base.h"
#include "os/os.h"

enum { HK_STACK_MOST = 64, HK_STACK_TABLE_SIZE = 4096 };

struct hk_stack {
    unsigned depth;
    void *frames[HK_STACK_MOST]; /* return addresses, innermost first */
};

/* Captures the calling thread's stack without the frames within HAKMEM. `caller` is the return address of HAKMEM's outermost function. */
void hk_stack_capture(struct hk_stack *stack, void *caller);

/* Captures the stack of a thread whose access failed, starting from the registers in `fault`. */
void hk_stack_follow(struct hk_stack *stack, const struct hk_fault *fault);

/* Returns a hash of the frames. Its low bits differ between stacks as much as its high bits. */
uint64_t hk_stack_hash(const struct hk_stack *stack, uint64_t seed);

/* Holds a thread and its call stack in few bytes, as the differences of successive frames. At least 17 frames fit, but usually 40 or more. */
enum { HK_PACKED_BYTES = 176 };

struct hk_packed_stack {
    int thread; /* the system's number of the thread; 0: no stack */
    uint16_t bytes;
    uint8_t packed[HK_PACKED_BYTES];
};

void hk_stack_pack(struct hk_packed_stack *packed, const struct hk_stack *stack, int thread);
void hk_stack_unpack(struct hk_stack *stack, const struct hk_packed_stack *packed);

/* Maps the table. Called at the start if an option needs numbers of stacks. Returns false if memory is refused. All numbers are 0 in this case. */
bool hk_stack_table_make(void);
/* Enters a stack into the table. Returns the number of the stack, which is at least 1, or 0 if the stack cannot be entered. */
uint32_t hk_stack_table_enter(const struct hk_stack *stack);
/* Returns the stack that has this number, or NULL if the number is 0. The field `thread` of the stack is 0. */
const struct hk_packed_stack *hk_stack_table_get(uint32_t number);
