/* The instrumented allocator serves if the mode is not plain (policy/gate.h). The mode is not plain before the start, while protections check each
 * call, while a background thread is needed, and while a feature looks at each miss. These features are hooks (prof/hooks.h), sampling by an attached
 * tool (prof/attach_sampling.h) and sampling with guard pages (guard/sampled.h). The instrumented allocator leaves all other work to the plain
 * allocator. Functions whose names begin with hk_guarded_ serve while protections are on.
 * Threads  Any thread may call these functions. */
#pragma once

#include "api/plain_alloc.h"
#include "guard/block_checks.h"

/* These functions allocate a block, and start HAKMEM if necessary. They return NULL if memory is refused. */
void *hk_instrumented_alloc(struct hk_request *request);
void *hk_instrumented_malloc(size_t size, void *caller);
/* Frees a block. `size` is the size that the program has passed to the call, or HK_SIZE_UNKNOWN. Messages about invalid pointers name `call`. */
void hk_instrumented_free(enum hk_call call, void *block, size_t size, void *caller);
/* Resizes a block without a copy like hk_plain_resize(), and tells the hooks. */
void *hk_instrumented_resize(void *block, size_t size, size_t now, void *caller);

/* Allocates a block from the slabs of a group (slab/abandoned.h). A block of more than 1 MiB gets no group. Group 0 means no group. */
void *hk_guarded_alloc_in(unsigned group, struct hk_request *request);
/* Returns the group of a block, or 0 if the block has no group. */
unsigned hk_guarded_group(const void *block);
/* Resizes a block. `block` must not be NULL, and the size must not be 0. Returns NULL if memory is refused, or if `block` is invalid. */
void *hk_guarded_realloc(void *block, struct hk_request *request);
size_t hk_guarded_usable_size(const void *block);
