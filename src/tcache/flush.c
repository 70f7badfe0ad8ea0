/* Sorts free blocks by owner, and returns each block to its slab, directly or by the outbox. */
#include "tcache/flush.h"

#include "slab/slab_heap.h"

/* A block of another owner's slab or of an abandoned slab. */
static HK_NOINLINE void flush_remote(struct hk_tcache *cache, void *block)
{
    uint32_t entry = hk_page_map_lookup((uintptr_t)block);
    if (hk_entry_owner(entry) >= HK_FIRST_OWNER)
        hk_outbox_put(&cache->outbox, block);
    else
        hk_remote_free(block, entry);
}

void hk_flush(struct hk_tcache *cache, void *const *blocks, unsigned n)
{
    for (unsigned done = hk_slab_heap_free(&cache->owner, blocks, n); done < n;) {
        flush_remote(cache, blocks[done++]);
        done += hk_slab_heap_free(&cache->owner, blocks + done, n - done);
    }
}
