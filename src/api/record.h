/* Record: the operations of the plain allocator while features look at each miss: hooks (prof/hooks.h), samples that lie apart because the
 * process is watched (prof/attach_sampling.h), and samples against a guard page (guard/sampled.h).
 * Threads  any. */
#ifndef HK_RECORD_H
#define HK_RECORD_H

#include "api/plain_alloc.h"

/* Does what hk_plain_alloc() does. The bin need not be empty. */
void *hk_record_alloc(struct hk_request *request);
/* Frees a block. `call` is the function that the message about an invalid pointer names. `size` is what the program says, or HK_SIZE_UNKNOWN. */
void hk_record_free(enum hk_call call, void *block, uint32_t entry, size_t size, void *caller);
/* Does what hk_plain_resize() does. */
void *hk_record_resize(void *block, size_t size, size_t now, void *caller);

#endif
