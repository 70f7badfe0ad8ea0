/* These functions call the plain allocator, and show each miss to the hooks (prof/hooks.h), to the sampling of a watched process
 * (prof/attach_sampling.h), and to the sampling with guard pages (guard/sampled.h).
 * Threads  Any thread may call these functions. */
#ifndef HK_RECORD_H
#define HK_RECORD_H

#include "api/plain_alloc.h"

/* Returns a block, or NULL if memory is refused, and shows the allocation to hooks and samples. Tries the bin first. */
void *hk_record_alloc(struct hk_request *request);
/* Frees a block and tells the hooks. Messages about invalid pointers name `call`. `size` is the size that the program names, or HK_SIZE_UNKNOWN. */
void hk_record_free(enum hk_call call, void *block, uint32_t entry, size_t size, void *caller);
/* Resizes a block without a copy as hk_plain_resize() does, and tells the hooks. */
void *hk_record_resize(void *block, size_t size, size_t now, void *caller);

#endif
