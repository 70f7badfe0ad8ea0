#include "prof/stack.h"

#include <string.h>

#include "os/os.h"

enum { OWN_FRAMES = 16 };

/* Absent from some C libraries, and from static programs that do not reference it. */
extern int backtrace(void **frames, int room) __attribute__((weak));

static _Atomic bool xbegun, xready;

/* Not while the loader runs: loading the unwinder would re-enter it. */
void hk_stack_prime(const void *caller)
{
    void *frame;
    if (hk_load(xbegun) || !hk_os.has_libc() || hk_os.in_loader(caller) || atomic_exchange(&xbegun, true))
        return;
    hk_store_release(xready, backtrace != NULL && backtrace(&frame, 1) > 0);
}

static void caller_alone(struct hk_stack *stack, void *caller)
{
    stack->depth = 1;
    stack->frames[0] = caller;
}

static unsigned position(void *const *frames, unsigned depth, const void *frame)
{
    unsigned i = 0;
    while (i < depth && frames[i] != frame)
        i++;
    return i;
}

void hk_stack_capture(struct hk_stack *stack, void *caller)
{
    void *frames[OWN_FRAMES + HK_STACK_MOST];
    int found = hk_load_acquire(xready) ? backtrace(frames, OWN_FRAMES + HK_STACK_MOST) : 0;
    unsigned depth = found > 0 ? (unsigned)found : 0;
    unsigned own = position(frames, depth < OWN_FRAMES ? depth : OWN_FRAMES, caller);
    if (own == depth || own == OWN_FRAMES) {
        caller_alone(stack, caller);
        return;
    }
    stack->depth = depth - own < HK_STACK_MOST ? depth - own : HK_STACK_MOST;
    memcpy(stack->frames, frames + own, stack->depth * sizeof stack->frames[0]);
}
