/* Instrumented: alloc, free, resize and size if the mode is not plain (policy/gate.h): before the start, while protections check each call, or
 * while hooks and samples look at each miss. Each feature hands on to the same operation of the plain allocator.
 * Threads  any. */
#ifndef HK_INSTRUMENTED_H
#define HK_INSTRUMENTED_H

#include "api/guarded.h"

/* Starts HAKMEM if necessary. Returns NULL if memory is refused. */
void *hk_instrumented_alloc(struct hk_request *request);
/* The same for malloc. */
void *hk_instrumented_malloc(size_t size, void *caller);
void hk_instrumented_free(enum hk_call call, void *block, size_t size, void *caller);

#endif
