/* Record: the operations of the plain allocator while features look at each miss: hooks (prof/hooks.h), samples that lie apart because the
 * process is watched (prof/attach_sampling.h), and samples against a guard page (guard/sampled.h).
 * Threads  any. */
#ifndef HK_RECORD_H
#define HK_RECORD_H

#include "api/plain_alloc.h"

/* As hk_plain_alloc(), but the bin need not be empty. */
void *hk_record_alloc(struct hk_request *request);
/* `call` names the function in the message about an invalid pointer; `size` is what the program says it is, or HK_SIZE_UNKNOWN. */
void hk_record_free(enum hk_call call, void *block, uint32_t entry, size_t size, void *caller);
/* As hk_plain_resize(). */
void *hk_record_resize(void *block, size_t size, size_t now, void *caller);

#endif
