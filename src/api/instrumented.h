/* Instrumented: alloc, free, resize and size if the mode is not plain (policy/gate.h): before the start, while protections check each call
 * (guarded: the block passes through guard/block_checks.h before and after), or while hooks and samples look at each miss. Each feature hands on
 * to the same operation of the plain allocator.
 * Threads  any. */
#ifndef HK_INSTRUMENTED_H
#define HK_INSTRUMENTED_H

#include "guard/block_checks.h"

/* Allocates a block, and starts HAKMEM if necessary. Returns NULL if memory is refused. */
void *hk_instrumented_alloc(struct hk_request *request);
/* Does the same for malloc. */
void *hk_instrumented_malloc(size_t size, void *caller);
void hk_instrumented_free(enum hk_call call, void *block, size_t size, void *caller);

/* Allocates a block while the guard is on. Returns NULL if memory is refused. */
void *hk_guarded_alloc(struct hk_request *request);
/* Does the same from the slabs of a group (slab/abandoned.h). For more than 1 MiB and for group 0, it is the same as hk_guarded_alloc(). */
void *hk_guarded_alloc_in(unsigned group, struct hk_request *request);
/* Returns the group of a block, 0 if the block has none. */
unsigned hk_guarded_group(const void *block);
/* Does what hk_guarded_alloc() does, for malloc. */
void *hk_guarded_malloc(size_t size, void *caller);
/* Checks a block, its kind and, unless it is HK_SIZE_UNKNOWN, its size, and frees it. `caller` is the exported function's return address. */
void hk_guarded_free(enum hk_call call, void *block, enum hk_kind kind, size_t size, void *caller);
/* Resizes a block. `block` and the size must not be 0. Returns NULL if memory is refused, or after a fault. */
void *hk_guarded_realloc(void *block, struct hk_request *request);
size_t hk_guarded_usable_size(const void *block);

#endif
