/* Defines reallocarray, cfree, free_sized and malloc_usable_size for programs that define only malloc, calloc, realloc and free. */
#include "api/process_malloc.h"

#include <errno.h>

#include "guard/guard.h"
#include "guard/sampled.h"
#include "hakmem.h"
#include "runtime/lifecycle.h"
#include "slab/slab.h"
#include "tcache/hit.h"

HK_PROCESS(void *, process_malloc, (size_t size), malloc, hak_malloc)
HK_PROCESS(void *, process_realloc, (void *block, size_t size), realloc, hak_realloc)
HK_PROCESS(void, process_free, (void *block), free, hak_free)

/* While the loader is at work, the process's functions are not resolved yet. */
static bool unknown_yet(void) { return HK_UNLIKELY(!hk_started()) && hk_is_bootstrapping(); }

void *hk_process_reallocarray(void *block, size_t count, size_t size)
{
    size_t bytes;
    if (unknown_yet() || __builtin_mul_overflow(count, size, &bytes))
        return hak_reallocarray(block, count, size);
    return HK_WHOEVER(process_realloc)(block, bytes);
}

void hk_process_free(void *block)
{
    if (unknown_yet())
        hak_free(block);
    else
        HK_WHOEVER(process_free)(block);
}

static bool free_is_ours(void)
{
    void (*known)(void *) = process_free;
    HK_FORGET(known);
    return known == hak_free;
}

void hk_process_free_sized(void *block, size_t size)
{
    if (free_is_ours())
        hak_free_sized(block, size);
    else
        hk_process_free(block);
}

void hk_process_free_aligned_sized(void *block, size_t alignment, size_t size)
{
    (void)alignment;
    hk_process_free_sized(block, size);
}

/* False also in a program that is not position independent and takes malloc's address: that address then lies in the
 * program. An invalid pointer there yields 0 instead of an error. */
static bool malloc_is_ours(void)
{
    void *(*known)(size_t) = process_malloc;
    HK_FORGET(known);
    return known == hak_malloc;
}

/* Distinguishes a block of HAKMEM's from one that the program has cut from such a block: the latter begins elsewhere,
 * or has the same size. */
static bool begins_block(const void *block)
{
    uint32_t entry = hk_page_map_lookup((uintptr_t)block);
    if (entry == 0)
        return hk_sampled_has(block);
    if (hk_entry_is_heap(entry))
        return true;
    if (hk_entry_class(entry) == HK_CLASS_LARGE)
        return hk_descriptor_at((uintptr_t)block)->start == (uintptr_t)block;
    const struct hk_slab *slab = hk_slab_at((uintptr_t)block);
    return slab->d.start + hk_slab_index(slab, (uintptr_t)block) * slab->d.block_size == (uintptr_t)block;
}

static HK_NOINLINE size_t usable_size_slow(void *block)
{
    block = HK_UNTAGGED(block);
    if (HK_UNLIKELY(block == NULL || unknown_yet() || (!malloc_is_ours() && !begins_block(block))))
        return 0;
    return hak_usable_size(block);
}

size_t hk_process_usable_size(void *block)
{
    uint32_t entry = HK_LIKELY(malloc_is_ours()) ? hk_hit_entry(block) : 0;
    if (HK_UNLIKELY(!hk_entry_is_plain(entry)))
        return usable_size_slow(block);
    size_t bytes = hk_classes[hk_entry_class(entry)].size;
    return HK_LIKELY(bytes <= HK_FINE_MAX) ? bytes : usable_size_slow(block); /* which checks a medium block */
}

HK_REPLACES(void *, reallocarray, (void *block, size_t count, size_t size), hk_process_reallocarray)
HK_REPLACES_IN_GLIBC(void *, __libc_reallocarray, (void *block, size_t count, size_t size), hk_process_reallocarray)
HK_REPLACES(void, cfree, (void *block), hk_process_free)
HK_REPLACES(void, free_sized, (void *block, size_t size), hk_process_free_sized)
HK_REPLACES(void, free_aligned_sized, (void *block, size_t alignment, size_t size), hk_process_free_aligned_sized)
HK_REPLACES(size_t, malloc_usable_size, (void *block), hk_process_usable_size)
