/* Defines the plain allocator. It serves calls that no guard, hook or sample has to see, and it serves the instrumented allocator. */
#include "api/plain_alloc.h"
#include "runtime/lifecycle.h"
#include "slab/abandoned.h"
#include "slab/slab_heap.h"

/* If a limit makes address space scarce, blocks above this size get mappings of their own, because chunks for spans take more address space. */
#define SCARCE_SIZES_TO (128 * HK_KIB)

void *hk_plain_alloc_large(struct hk_tcache *cache, struct hk_request *request)
{
    void *block = hk_large_alloc(request->size, request->align, &request->zeroed);
    if (block != NULL && cache != NULL) {
        HK_COUNT_THREAD(&cache->owner.counts, large_calls, 1);
        if (request->zeroed)
            hk_tcache_grew(cache, request->size);
    } else if (block != NULL)
        HK_COUNT(cacheless_calls, 1);
    return block;
}

/* Takes a block from the thread's own slabs, and frees the joined block `unaligned` (joined_blocks.h), which is aligned to less than its class. */
static HK_COLD void *take_aligned(struct hk_tcache *cache, unsigned class, void *unaligned)
{
    void *aligned = NULL;
    cache->hot.bins[class].served += hk_slab_heap_take_own(&cache->owner, class, &aligned + 1, 1);
    hk_tcache_free(cache, unaligned, hk_page_map_lookup((uintptr_t)unaligned));
    return aligned;
}

/* Returns the size class for a request, or HK_CLASSES if the block gets its own mapping. */
static unsigned class_for(size_t size, size_t align)
{
    size_t sizes_to = HK_LIKELY(!hk_load(hk_footprint.xscarce)) ? HK_MEDIUM_MAX : SCARCE_SIZES_TO;
    return size <= sizes_to && align <= HK_SLICE ? hk_class_of_aligned(size, align) : HK_CLASSES;
}

static void *take_of_class(struct hk_tcache *cache, unsigned class, size_t size)
{
    return HK_LIKELY(cache != NULL) ? hk_tcache_alloc(cache, class, size) : hk_abandoned_alloc(class, HK_FOR_ADOPTION);
}

/* Takes a block of more than 32 KiB and up to 1 MiB, and marks it as live. Returns NULL if memory is refused. */
static void *take_of_medium_class(struct hk_tcache *cache, unsigned class, struct hk_request *request)
{
    if (cache != NULL)
        cache->owner.blank = NULL;
    void *block = take_of_class(cache, class, request->size);
    if (block != NULL)
        hk_mark_begin(block);
    request->zeroed = block != NULL && cache != NULL && cache->owner.blank == block;
    return block;
}

static void *take_block(struct hk_request *request)
{
    size_t align = request->align;
    unsigned class = class_for(request->size, align);
    struct hk_tcache *cache = hk_tcache_get();
    if (class == HK_CLASSES)
        return hk_plain_alloc_large(cache, request);
    if (class >= HK_FINE_CLASSES)
        return take_of_medium_class(cache, class, request);
    /* Rounds the size up, because hk_learned_vote() may propose it as the block size of the class, and this block size must keep the alignment. */
    size_t size = HK_LIKELY(align <= HK_FINE_STEP) ? request->size : hk_align_up(request->size, align);
    void *block = take_of_class(cache, class, size);
    if (HK_UNLIKELY(((uintptr_t)block & (align - 1)) != 0) && cache != NULL)
        block = take_aligned(cache, class, block);
    return block;
}

/* Purges all idle memory after a refusal, and tries once more, because idle memory may use up the memory limit of the process. */
static HK_COLD void *take_after_purge(struct hk_request *request)
{
    struct hk_tcache *cache = hk_tcache_self();
    if (request->size >= (size_t)1 << HK_ADDRESS_BITS)
        return NULL;
    hk_tcache_trim_all(cache, 0);
    (void)hk_footprint_read_limit(); /* the program may have changed the limit */
    if (cache != NULL)
        hk_tcache_steal_all(cache);
    return take_block(request);
}

HK_NOINLINE void *hk_plain_alloc(struct hk_request *request)
{
    request->zeroed = false;
    void *block = take_block(request);
    if (HK_UNLIKELY(block == NULL))
        block = take_after_purge(request);
    if (HK_UNLIKELY(hk_learning_is_due()))
        hk_learning_tick();
    return block;
}

void hk_plain_free(void *block, uint32_t entry) { hk_tcache_free(hk_tcache_get(), block, entry); }

void *hk_plain_resize(void *block, size_t size, size_t now)
{
    if (hk_stays(size, now))
        return block;
    if (now <= HK_FINE_MAX)
        return NULL;
    struct hk_tcache *cache = hk_tcache_get();
    if (!hk_entry_is_large(hk_page_map_lookup((uintptr_t)block)))
        return hk_tcache_resize(cache, block, size) ? block : NULL;
    void *resized = hk_large_resize(block, size);
    if (resized != NULL && cache != NULL && size > now)
        hk_tcache_grew(cache, size - now);
    return resized;
}
