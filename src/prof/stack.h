/* Stack: captures call stacks by the modules' own unwind tables, or by frame pointers if a module has none. Packs them, and keeps each packed stack
 * once, found by a number.
 *
 *   stack --hash--> slot: the hash, the packed stack --> number
 *
 * Owns       the table of stacks, of a fixed size. The start makes it, so that threads that enter their first stacks at the same moment map nothing.
 * Invariant  a capture takes no lock, allocates nothing, loads nothing, and needs about a kilobyte of stack. A broken frame ends the stack, because
 *            the system is asked about each page before the page is read. A number stands for one stack for the life of the process. If the table is
 *            nearly full, only callers enter it. If it is full, or the start was refused memory for it, the number is 0.
 * Threads    any, a signal handler too; no lock. A stack that is read while it is written has fewer frames. */
#ifndef HK_STACK_H
#define HK_STACK_H

#include "base/base.h"
#include "os/os.h"

enum { HK_STACK_MOST = 64 };

struct hk_stack {
    unsigned depth;
    void *frames[HK_STACK_MOST]; /* return addresses, innermost first */
};

/* Captures the calling thread's stack. `caller` is the return address of HAKMEM's outermost function. The frames within HAKMEM are omitted. */
void hk_stack_capture(struct hk_stack *stack, void *caller);

/* Captures the stack of a thread whose access failed, from its known registers. */
void hk_stack_follow(struct hk_stack *stack, const struct hk_fault *fault);

/* Returns a hash. Its low bits are as good as its high ones. */
uint64_t hk_stack_hash(const struct hk_stack *stack, uint64_t seed);

/* A call stack in few bytes. It holds the thread and the differences of successive frames. Unpacking returns the innermost frames that fit,
 * unchanged. At least 17 fit, and 40 or more of most stacks. */
enum { HK_PACKED_BYTES = 176 };

struct hk_packed_stack {
    int thread; /* the system's number of the thread; 0: no stack */
    uint16_t bytes;
    uint8_t packed[HK_PACKED_BYTES];
};

void hk_stack_pack(struct hk_packed_stack *packed, const struct hk_stack *stack, int thread);
void hk_stack_unpack(struct hk_stack *stack, const struct hk_packed_stack *packed);

enum { HK_STACK_TABLE_SIZE = 4096 };

/* Makes the table at the start, if an option needs it. Returns false if memory is refused. Stacks then have no numbers. */
bool hk_stack_table_make(void);
/* Enters a stack. Returns its number, from 1 on, 0 if it cannot be entered. */
uint32_t hk_stack_table_enter(const struct hk_stack *stack);
/* Returns the stack of a number, NULL for 0. The thread of the stack is 0. */
const struct hk_packed_stack *hk_stack_table_get(uint32_t number);

#endif
