/* Entry: what lies behind a miss, for all of malloc's faces.
 * Threads  any. */
#ifndef HK_ENTRY_H
#define HK_ENTRY_H

#include "base/base.h"

/* NULL with errno set to ENOMEM if memory is refused. Called at the end of malloc, whose return address it then has: to pass
 * that on would take an instruction more of each coarse hit. */
void *hk_malloc_slow(size_t size);
/* The same for others: `caller` is the return address of whichever of malloc's kin was called. */
void *hk_malloc_slow_for(size_t size, void *caller);
/* align is a power of two. */
void *hk_aligned_slow(size_t align, size_t size, void *caller);
void hk_free_slow(void *block);
void hk_delete_slow(void *block);

#endif
