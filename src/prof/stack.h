/* Stack: captures call stacks.
 * Owns     the capture: the C library's backtrace() if present; otherwise a stack is the caller alone.
 * Threads  any.
 * Never    called with a lock of HAKMEM's held: the unwinder takes locks of the loader, and allocates on its first call. */
#ifndef HK_STACK_H
#define HK_STACK_H

#include "base/base.h"

enum { HK_STACK_MOST = 64 };

struct hk_stack {
    unsigned depth;
    void *frames[HK_STACK_MOST]; /* return addresses, innermost first */
};

/* Makes the C library load its unwinder, once, as soon as it can; until then a stack is the caller alone. The unwinder
 * allocates: the caller prevents sampling of that. */
void hk_stack_prime(const void *caller);

/* `caller` is the return address of HAKMEM's outermost function; the frames within it are omitted. */
void hk_stack_capture(struct hk_stack *stack, void *caller);

#endif
