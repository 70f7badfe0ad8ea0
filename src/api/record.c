/* Allocates, frees and resizes blocks while hooks or samples are on. Each function tells hooks or samples, and then calls the plain allocator. */
#include "api/record.h"
#include "api/kinds.h"
#include "guard/sampled.h"
#include "prof/hooks.h"
#include "prof/attach_sampling.h"
#include "runtime/lifecycle.h"

/* Returns a block that is sampled because the process is watched. Returns NULL if the allocation is not picked, or if no room is left for samples. */
static HK_COLD void *alloc_watched(struct hk_request *request)
{
    struct hk_tcache *cache = hk_tcache_get();
    if (cache == NULL || !hk_attach_sampling_picks(cache, request->size))
        return NULL;
    request->zeroed = false;
    void *block = request->size <= HK_FINE_MAX ? hk_attach_sampling_alloc(request->size, request->align)
                                               : hk_plain_alloc_large(cache, request);
    if (block != NULL)
        hk_hooks_picked(cache, block, request->size, request->caller);
    return block;
}

/* Allocates a block without telling the hooks. Tries the bin first, because hooks must not change which blocks the program gets. */
static void *alloc_unwatched(struct hk_request *request)
{
    bool hits = request->size <= HK_FINE_MAX && request->align <= HK_FINE_STEP;
    void *block = hits ? hk_hit_malloc_fine(request->size) : NULL;
    request->zeroed = false;
    if (block != NULL)
        return block;
    if (hk_mode_has(HK_MODE_SAMPLING))
        block = hk_sampled_alloc(request);
    return block != NULL ? block : hk_plain_serve(request);
}

void *hk_record_alloc(struct hk_request *request)
{
    if (!hk_mode_has(HK_MODE_HOOKS))
        return alloc_unwatched(request);
    HK_FENCE(memory_order_acquire); /* pairs with the thread that begins to watch a running process */
    void *block = hk_hooks.watches ? alloc_watched(request) : NULL;
    if (block != NULL)
        return block;
    block = alloc_unwatched(request);
    if (HK_LIKELY(block != NULL))
        hk_hooks_alloc(HK_EVENT_alloc, block, request->size, request->caller);
    return block;
}

/* Tells the hooks about a free. Returns true if a site rule has freed the block. Only large blocks have site rules. */
static bool free_by_rule(void *block, uint32_t entry)
{
    bool in_slab = hk_hooks.traces && entry != 0 && !hk_entry_is_large(entry);
    enum hk_site_rule rule = hk_hooks_free(block, in_slab ? hk_plain_size(block, entry) : 0);
    if (HK_LIKELY(rule == HK_SITE_NO_RULE))
        return false;
    if (rule == HK_SITE_KEEP_WARM)
        hk_large_keep(block, hk_site_keep_until());
    else
        hk_large_drop(block);
    return true;
}

void hk_record_free(enum hk_call call, void *block, uint32_t entry, size_t size, void *caller)
{
    enum hk_block_kind kind = hk_block_kind_of(block, entry);
    hk_block_check_free(call, block, entry, kind, size); /* checks before a hook sees the free */
    if (hk_mode_has(HK_MODE_HOOKS) && !hk_entry_is_heap(entry) && free_by_rule(block, entry))
        return;
    if (!hk_hit_free_known(block, entry))
        hk_block_free(call, block, entry, kind, caller);
}

void *hk_record_resize(void *block, size_t size, size_t now, void *caller)
{
    if (!hk_mode_has(HK_MODE_HOOKS))
        return hk_plain_resize(block, size, now);
    uint64_t record = hk_hooks_resize_begin(block);
    void *resized = hk_plain_resize(block, size, now);
    hk_hooks_resize_end(block, record, resized, size, caller);
    return resized;
}
