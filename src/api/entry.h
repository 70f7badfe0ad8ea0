/* Entry: what lies behind a miss, for all of malloc's faces.
 * Threads  any. */
#ifndef HK_ENTRY_H
#define HK_ENTRY_H

#include "base/base.h"

/* NULL with errno set to ENOMEM if memory is refused. */
void *hk_malloc_slow(size_t size);
/* align is a power of two. */
void *hk_aligned_slow(size_t align, size_t size);
void hk_free_slow(void *block);

#endif
