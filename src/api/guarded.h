/* Guarded: the malloc family while the guard is on: the same slow paths, with the block in block_checks (guard/block_checks.h) before and after.
 * Threads  any. */
#ifndef HK_GUARDED_H
#define HK_GUARDED_H

#include "guard/block_checks.h"

/* NULL if memory is refused. */
void *hk_guarded_alloc(struct hk_request *request);
/* The same from the slabs of a group (slab/abandoned.h); of more than 1 MiB, and for group 0, as hk_guarded_alloc(). */
void *hk_guarded_alloc_in(unsigned group, struct hk_request *request);
/* The group of a block; 0: none. */
unsigned hk_guarded_group(const void *block);
/* The same for malloc. */
void *hk_guarded_malloc(size_t size, void *caller);
/* Checks a block, its kind and its size, if that is not HK_SIZE_UNKNOWN, and frees it. `caller` is the return address of the exported function. */
void hk_guarded_free(enum hk_call call, void *block, enum hk_kind kind, size_t size, void *caller);
/* block and size are not 0. NULL if memory is refused, or after a fault. */
void *hk_guarded_realloc(void *block, struct hk_request *request);
size_t hk_guarded_usable_size(const void *block);

#endif
