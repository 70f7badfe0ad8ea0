/* Guarded: the malloc family while the guard is on: the same slow paths, with the block in custody (guard/custody.h) before and after.
 * Threads  any. */
#ifndef HK_GUARDED_H
#define HK_GUARDED_H

#include "guard/custody.h"

/* NULL if memory is refused. `align` is a power of two, at least 16. *zeroed: the block reads as zeros. */
void *hk_guarded_alloc(size_t size, size_t align, enum hk_kind kind, bool *zeroed, void *caller);
/* The same from the slabs of a group (slab/orphans.h); of more than 1 MiB, and for group 0, as hk_guarded_alloc(). */
void *hk_guarded_alloc_in(unsigned group, size_t size, size_t align, enum hk_kind kind, bool *zeroed, void *caller);
/* The group of a block; 0: none. */
unsigned hk_guarded_group(const void *block);
/* The same for malloc. */
void *hk_guarded_malloc(size_t size, void *caller);
void hk_guarded_free(enum hk_call call, void *block, enum hk_kind kind);
/* `caller` is the return address of the exported function. */
void hk_guarded_free_sized(enum hk_call call, void *block, enum hk_kind kind, size_t size, void *caller);
/* block and size are not 0. NULL if memory is refused, or after a fault. */
void *hk_guarded_realloc(void *block, size_t size, void *caller);
size_t hk_guarded_usable_size(const void *block);

#endif
