/* Sampled blocks (HAKMEM_GUARD_SAMPLE) lie against guard pages. An access beside such a block faults. So does each access after the block's free.
 *
 *   an allocation for which a sample is due (sampled_due.h) --> hk_sampled_alloc: slot, stack --> the program
 *   free: outside the page map --> hk_slots_hold: one compare --> hk_sampled_free: stack, the slot becomes inaccessible
 *
 *   SIGSEGV --> in the slots, and a mistake? --> report --> the earlier handler is installed again, and the fault recurs
 *                       | no --> the earlier handler is called, or the default action is taken
 *
 * Owns       This file owns the handler of SIGSEGV. If the program installs a handler later, that handler gets the faults in the slots.
 * Invariant  If sampling is off, it costs only one bit of the mode: HK_MODE_SAMPLING. The first sample maps the slots and installs the handler.
 * Threads    Any thread and the handler may call these functions, but must not hold a lock of HAKMEM. A process writes one report. */
#pragma once

#include "guard/sampled_slots.h"
#include "policy/gate.h"

/* Returns a zeroed block against a guard page. Returns NULL if no sample is due (sampled_due.h), no slot is free, or the system refuses memory. */
void *hk_sampled_alloc(struct hk_request *request);

/* Returns the bytes that the program may use. Ends the program if `block` is not a live block. Precondition: hk_slots_hold(block). */
size_t hk_sampled_size(enum hk_call call, const void *block);
/* Frees the block, or ends the program if it is not live. `caller` is the exported function's return address. Precondition: hk_slots_hold(block). */
void hk_sampled_free(enum hk_call call, void *block, void *caller);

/* Reports the wrong access that `fault` describes. If `fault` is NULL, reports `what` about a call with a wrong pointer, whose stack is `by`. */
void hk_sampled_tell(const struct hk_slot *slot, uintptr_t address, const struct hk_fault *fault, const char *what,
                     const struct hk_packed_stack *by);
