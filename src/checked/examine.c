/* Ends the program if a copy leaves the block in which it begins, or touches free memory of HAKMEM. */
#include "checked/checked.h"

static const char *verb(enum hk_copying access) { return access == HK_WRITES ? "write" : "read"; }

/* Ends the program if the block is free, or if the range leaves the block. Precondition: the range begins in the block or its slack. */
static void examine_block(const char *call, enum hk_copying access, uintptr_t at, size_t bytes,
                          const struct hk_bounds *block)
{
    const char *direction = access == HK_WRITES ? "to" : "from";
    size_t into = at - block->start;
    if (HK_UNLIKELY(block->kind == HK_BOUNDS_FREE && block->size == 0))
        hk_fatal(HK_TEXT_free_memory, call, verb(access), direction, (uint64_t)at, bytes);
    if (HK_UNLIKELY(block->kind == HK_BOUNDS_FREE))
        hk_fatal(HK_TEXT_free_block, call, verb(access), direction, (uint64_t)at, bytes, into, block->size);
    if (HK_UNLIKELY(into > block->size || bytes > block->size - into))
        hk_fatal(HK_TEXT_beyond_end, call, verb(access), (uint64_t)at, bytes, into, block->size);
}

void hk_examine(const char *call, enum hk_copying access, const void *p, size_t bytes)
{
    uintptr_t at = (uintptr_t)p;
    if (bytes <= hk_bounds_room(at) || bytes <= hk_bounds_remembered(at))
        return;
    struct hk_bounds block = hk_block_bounds(at);
    if (block.kind != HK_BOUNDS_UNKNOWN)
        examine_block(call, access, at, bytes, &block);
    else if (HK_UNLIKELY(bytes > block.start + block.size - at)) { /* a range that leaves a gap may end in a block */
        struct hk_bounds last = hk_block_bounds(at + bytes - 1);
        if (HK_UNLIKELY(last.kind == HK_BOUNDS_BLOCK && last.start > at))
            hk_fatal(HK_TEXT_before_start, call, verb(access), (uint64_t)at, bytes, last.start - at, last.size);
    }
}

size_t hk_examine_room(const char *call, const void *p)
{
    uintptr_t at = (uintptr_t)p;
    struct hk_bounds block = hk_block_bounds(at);
    if (HK_LIKELY(block.kind == HK_BOUNDS_UNKNOWN))
        return SIZE_MAX;
    examine_block(call, HK_READS, at, 1, &block);
    return block.size - (at - block.start);
}
