/* Defines reallocarray, cfree, free_sized and malloc_usable_size. A program may define malloc, calloc, realloc and free, but none of these functions.
 * They then get blocks of the program's malloc, and must not treat such blocks as HAKMEM's.
 * Therefore reallocarray calls the realloc that the process uses, which is the first one that the loader finds. In the same way, free_sized and cfree
 * call the free that the process uses. The hak_ functions always use HAKMEM. */
#include "api/operators.h"
#include "guard/sampled.h"

HK_BY_NAME(void *, any_reallocarray, (void *block, size_t count, size_t size), reallocarray)
{
    size_t bytes;
    if (!hk_relocated() || __builtin_mul_overflow(count, size, &bytes))
        return hak_reallocarray(block, count, size);
    return HK_WHOEVER(process_realloc)(block, bytes);
}

HK_BY_NAME(void, any_free, (void *block), cfree)
{
    if (!hk_relocated())
        hak_free(block);
    else
        HK_WHOEVER(process_free)(block);
}

HK_BY_NAME(void, any_free_sized, (void *block, size_t size), free_sized)
{
    if (HK_IS_OURS(process_free, hak_free))
        hak_free_sized(block, size);
    else
        any_free(block);
}

HK_BY_NAME(void, any_free_aligned_sized, (void *block, size_t alignment, size_t size), free_aligned_sized)
{
    (void)alignment;
    any_free_sized(block, size);
}

/* Returns true if a block of HAKMEM begins at the pointer. The program's malloc may cut its blocks out of HAKMEM's blocks. A pointer to such a block
 * usually leads to the middle of HAKMEM's block, unless the two blocks are the same. */
static bool begins_block(const void *block)
{
    uint32_t entry = hk_page_map_lookup((uintptr_t)block);
    if (entry == 0)
        return hk_slots_hold(block);
    if (hk_entry_is_heap(entry))
        return true;
    if (hk_entry_class(entry) == HK_CLASS_LARGE)
        return hk_descriptor_at((uintptr_t)block)->start == (uintptr_t)block;
    return hk_slab_begins(hk_slab_at((uintptr_t)block), (uintptr_t)block, &(size_t){0});
}

static HK_NOINLINE size_t usable_size_slow(void *block)
{
    block = HK_UNTAGGED(block);
    if (HK_UNLIKELY(block == NULL || !hk_relocated() || (!hk_malloc_is_ours() && !begins_block(block))))
        return 0;
    return hak_malloc_usable_size(block);
}

/* Returns the usable bytes of a block. If the process does not use HAKMEM's malloc, returns 0 for a pointer at which no block of HAKMEM begins. */
HK_BY_NAME(size_t, any_usable_size, (void *block), malloc_usable_size)
{
    uint32_t entry = HK_LIKELY(hk_malloc_is_ours()) ? hk_hit_entry(block) : 0;
    if (HK_UNLIKELY(!hk_entry_is_plain(entry)))
        return usable_size_slow(block);
    size_t bytes = hk_classes[hk_entry_class(entry)].size;
    return HK_LIKELY(bytes <= HK_FINE_MAX) ? bytes : usable_size_slow(block); /* the slow path checks a medium block */
}

HK_REPLACES_IN_GLIBC(void *, __libc_reallocarray, (void *block, size_t count, size_t size), any_reallocarray)
