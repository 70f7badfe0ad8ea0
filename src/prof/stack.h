/* Stack: captures call stacks by the modules' own unwind tables, or by frame pointers where a module has none.
 * Invariant  a capture takes no lock, allocates nothing, loads nothing, and takes about a kilobyte of the stack that it is called on. A broken
 *            frame ends the stack, because the system is asked about each page before the page is read.
 * Threads    any, a signal handler too. */
#ifndef HK_STACK_H
#define HK_STACK_H

#include "base/base.h"
#include "os/os.h"

enum { HK_STACK_MOST = 64 };

struct hk_stack {
    unsigned depth;
    void *frames[HK_STACK_MOST]; /* return addresses, innermost first */
};

/* `caller` is the return address of HAKMEM's outermost function; the frames within it are omitted. */
void hk_stack_capture(struct hk_stack *stack, void *caller);

/* The frames of a thread whose access failed, by the registers that are known of it. */
void hk_stack_follow(struct hk_stack *stack, const struct hk_fault *fault);

#endif
