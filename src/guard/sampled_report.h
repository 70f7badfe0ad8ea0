/* Sampled report: tells on stderr of a mistake with a sampled block: what happened, and the stacks that are known.
 *
 *   begin --> headline, stacks of the block --> stack of the access --> end
 *
 * Owns       nothing: told.h has the text.
 * Invariant  a process writes one report.
 * Threads    any, a signal handler too. No lock is needed, malloc is not called. */
#ifndef HK_SAMPLED_REPORT_H
#define HK_SAMPLED_REPORT_H

#include "guard/sampled_slots.h"
#include "os/os.h"

/* The access that faulted, at `address`. */
void hk_sampled_tell_fault(const struct hk_slot *slot, uintptr_t address, const struct hk_fault *fault);
/* A call with a wrong pointer; `what` begins the headline. `by` is the stack of the call. */
void hk_sampled_tell_call(const struct hk_slot *slot, const char *what, uintptr_t address,
                          const struct hk_packed_stack *by);

#endif
