/* Stack: who called?
 * Owns     how a call stack is read: by the C library's backtrace(), where it has one; else all that is known is the caller.
 * Threads  any.
 * Never    called while a lock of HAKMEM's is held: the unwinder takes locks of the loader's, and allocates the first time. */
#ifndef HK_STACK_H
#define HK_STACK_H

#include "base/base.h"

enum { HK_STACK_MOST = 64 };

struct hk_stack {
    unsigned depth;
    void *frames[HK_STACK_MOST]; /* return addresses, the innermost first */
};

/* Has the C library load its unwinder, once, as soon as it can. It allocates: what it does is not to be looked at. Until then
 * only the caller is read. */
void hk_stack_prime(const void *caller);

/* `caller` is the return address of the outermost of HAKMEM's own functions: what lies within it is left out. */
void hk_stack_capture(struct hk_stack *stack, void *caller);

#endif
