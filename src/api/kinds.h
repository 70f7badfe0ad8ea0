/* Declares what free, realloc and malloc_usable_size do with each kind of block. The functions are made from the table in kinds.def.
 * Threads  Any thread may call these functions for a block that no other thread uses. */
#pragma once

#include "span/descriptor.h"

enum hk_block_kind {
#define HK_BLOCK(kind, condition, check, bytes, resize, free) HK_BLOCK_##kind,
#include "api/kinds.def"
};
/* Says whether realloc tries to resize a block in place, copies it to a new block, or leaves it to the user heap of the block. */
enum hk_block_resize { HK_RESIZE_PLACE, HK_RESIZE_COPY, HK_RESIZE_HEAP };

enum hk_block_kind hk_block_kind_of(const void *block, uint32_t entry);
enum hk_block_resize hk_block_resize_of(enum hk_block_kind kind);
/* Returns the usable bytes of a block, or the readable bytes of another allocator's block. Makes the kind's check, which may end the program. */
size_t hk_block_size(enum hk_call call, const void *block, uint32_t entry, enum hk_block_kind kind);
/* Makes the kind's check (kinds.def), and ends the program if the block cannot have the size `size`. Clears the mark of a medium block. */
void hk_block_check_free(enum hk_call call, const void *block, uint32_t entry, enum hk_block_kind kind, size_t size);
/* Frees a block that hk_block_check_free() has checked. `caller` is the return address of the exported function. */
void hk_block_free(enum hk_call call, void *block, uint32_t entry, enum hk_block_kind kind, void *caller);
