/* The plain allocator allocates, frees and resizes blocks while no feature (guard, hooks, samples) has to see the call. A block of up to 1 MiB comes
 * from the thread's cache or, if there is no cache, from an abandoned slab. If memory is refused, the allocator purges idle memory, and tries again.
 * Threads  Any thread may call these functions.
 * Never    No function sets errno. The features and the start of HAKMEM are the work of instrumented.h. */
#pragma once

#include "base/inline_copy.h"
#include "runtime/learning.h"
#include "tcache/tcache.h"

#define HK_LONG_TO_ZERO (512 * HK_KIB) /* from this size, it is worth asking which pages are resident (large_zero.c) */

/* Serves the most frequent miss: the bin for a size up to 32 KiB is empty, or the gate is shut. Returns NULL for other misses and refused memory. */
HK_INLINE void *hk_plain_refill(size_t size)
{
    if (HK_UNLIKELY(size > HK_FINE_MAX) || HK_UNLIKELY(hk_self->key == HK_NO_KEY))
        return NULL;
    void *block = hk_tcache_alloc(hk_container_of(hk_self, struct hk_tcache, hot), hk_class_of(size), size);
    if (HK_UNLIKELY(hk_learning_is_due()))
        hk_learning_tick();
    return block;
}

/* Returns a block, or NULL if memory is refused. Precondition: HAKMEM has started. */
void *hk_plain_alloc(struct hk_request *request);
/* Tries hk_plain_refill() first, and then hk_plain_alloc(). Precondition: request->zeroed is false. */
HK_INLINE void *hk_plain_serve(struct hk_request *request)
{
    void *block = request->align <= HK_FINE_STEP ? hk_plain_refill(request->size) : NULL;
    return HK_LIKELY(block != NULL) ? block : hk_plain_alloc(request);
}
/* Returns a block of any size with its own mapping. `cache` is the thread's cache, or NULL. */
void *hk_plain_alloc_large(struct hk_tcache *cache, struct hk_request *request);
/* Frees a block whose page map entry is not 0. */
void hk_plain_free(void *block, uint32_t entry);
/* Resizes a block of `now` bytes without a copy. Returns the block, perhaps at a new address (mremap), or NULL if it must be copied. */
void *hk_plain_resize(void *block, size_t size, size_t now);

/* Zeroes a block that was used before, and returns it. */
HK_INLINE void *hk_zero(void *block, size_t bytes)
{
    return HK_UNLIKELY(bytes >= HK_LONG_TO_ZERO) ? hk_large_zero(block, bytes) : hk_inline_zero(block, bytes);
}
/* Returns true if realloc to `size` keeps a block of `now` bytes, because the block is large enough, and is half used or has at most 64 bytes. */
HK_INLINE bool hk_stays(size_t size, size_t now) { return size - 1 < now && (size >= now / 2 || now <= 64); }
