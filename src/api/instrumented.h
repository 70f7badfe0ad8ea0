/* These functions allocate, free, resize and measure blocks if the mode is not plain (policy/gate.h). The mode is not plain before the start, while
 * protections check each call, and while hooks (prof/hooks.h), the sampling of a watched process (prof/attach_sampling.h) or sampling with guard
 * pages (guard/sampled.h) look at each miss. The functions named hk_guarded_ check blocks by guard/block_checks.h. All functions leave the operation
 * itself to the plain allocator.
 * Threads  Any thread may call these functions. */
#ifndef HK_INSTRUMENTED_H
#define HK_INSTRUMENTED_H

#include "api/plain_alloc.h"
#include "guard/block_checks.h"

/* Allocates a block, and starts HAKMEM if necessary. Returns NULL if memory is refused. */
void *hk_instrumented_alloc(struct hk_request *request);
/* Allocates a block for malloc, and starts HAKMEM if necessary. Returns NULL if memory is refused. */
void *hk_instrumented_malloc(size_t size, void *caller);
/* Frees a block. `size` is the size that the program names, or HK_SIZE_UNKNOWN. Messages about invalid pointers name `call`. */
void hk_instrumented_free(enum hk_call call, void *block, size_t size, void *caller);
/* Resizes a block without a copy as hk_plain_resize() does, and tells the hooks. */
void *hk_instrumented_resize(void *block, size_t size, size_t now, void *caller);

/* Allocates a block from the slabs of a group (slab/abandoned.h) while the guard is on. Above 1 MiB or for group 0, allocates a block without a
 * group. */
void *hk_guarded_alloc_in(unsigned group, struct hk_request *request);
/* Returns the group of a block, or 0 if the block has no group. */
unsigned hk_guarded_group(const void *block);
/* Resizes a block. `block` and the size must not be 0. Returns NULL if memory is refused, or after a fault. */
void *hk_guarded_realloc(void *block, struct hk_request *request);
size_t hk_guarded_usable_size(const void *block);

#endif
