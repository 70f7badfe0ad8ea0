/* Fault: tells of a call that the guard has refused.
 * Threads  any. */
#ifndef HK_FAULT_H
#define HK_FAULT_H

#include "guard/guard.h"
#include "span/descriptor.h"

/* Prints the line about an invalid pointer. Returns if faulty calls are left without effect, else ends the program. */
void hk_guard_fault(enum hk_call call, const char *fault, const void *block);

/* The fault of a pointer that is no live block; NULL if it is another allocator's block, which is left alone. */
const char *hk_guard_fault_of(const void *block);

#endif
