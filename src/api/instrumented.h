/* These functions allocate, free, resize and measure blocks if the mode is not plain (policy/gate.h). The mode is not plain before the start, while
 * protections check each call, and while hooks or samples look at each miss. The functions named hk_guarded_ check blocks by guard/block_checks.h.
 * All functions leave the operation itself to the plain allocator.
 * Threads  Any thread may call these functions. */
#ifndef HK_INSTRUMENTED_H
#define HK_INSTRUMENTED_H

#include "guard/block_checks.h"

/* Allocates a block, and starts HAKMEM if necessary. Returns NULL if memory is refused. */
void *hk_instrumented_alloc(struct hk_request *request);
/* Allocates a block for malloc, and starts HAKMEM if necessary. Returns NULL if memory is refused. */
void *hk_instrumented_malloc(size_t size, void *caller);
void hk_instrumented_free(enum hk_call call, void *block, size_t size, void *caller);

/* Allocates a block while the guard is on. Returns NULL if memory is refused. */
void *hk_guarded_alloc(struct hk_request *request);
/* Allocates a block from the slabs of a group (slab/abandoned.h) while the guard is on. Calls hk_guarded_alloc() above 1 MiB or for group 0. */
void *hk_guarded_alloc_in(unsigned group, struct hk_request *request);
/* Returns the group of a block, or 0 if the block has no group. */
unsigned hk_guarded_group(const void *block);
/* Allocates a block for malloc while the guard is on. Returns NULL if memory is refused. */
void *hk_guarded_malloc(size_t size, void *caller);
/* Checks a block, its kind and, if `size` is known, its size. Then frees the block. `caller` is the exported function's return address. */
void hk_guarded_free(enum hk_call call, void *block, enum hk_kind kind, size_t size, void *caller);
/* Resizes a block. `block` and the size must not be 0. Returns NULL if memory is refused, or after a fault. */
void *hk_guarded_realloc(void *block, struct hk_request *request);
size_t hk_guarded_usable_size(const void *block);

#endif
