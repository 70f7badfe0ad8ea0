#include "api/entry.h"
#include "big/big.h"
#include "hakmem.h"
#include "prof/hooks.h"
#include "runtime/life.h"
#include "slab/lodge.h"
#include "tcache/tcache.h"

static size_t class_size(const void *block, uint32_t entry)
{
    if (hk_entry_is_mixed(entry))
        return hk_lodge_bytes(block);
    return hk_entry_is_plain(entry) ? hk_classes[hk_entry_class(entry)].size : 0;
}

/* Only big blocks have site rules. */
static HK_COLD void free_by_rule(enum hk_site_rule rule, void *block)
{
    if (rule == HK_SITE_KEEP_WARM)
        hk_big_keep(block, hk_site_keep_until());
    else
        hk_big_drop(block);
}

static bool free_seen(void *block, uint32_t entry)
{
    enum hk_site_rule rule = hk_hooks_free(block, hk_hooks.traces ? class_size(block, entry) : 0);
    if (HK_UNLIKELY(rule != HK_SITE_NO_RULE)) {
        free_by_rule(rule, block);
        return true;
    }
    return hk_hit_free_known(block, entry);
}

/* `call` names the function in the message about an invalid pointer. */
static void free_named(enum hk_call call, void *block, uint32_t entry)
{
    struct hk_tcache *cache = hk_life_cache();
    if (entry == 0)
        hk_tcache_free_foreign(call, block);
    else
        hk_tcache_free(cache, block, entry);
}

static bool is_big(uint32_t entry) { return entry != 0 && hk_entry_class(entry) == HK_CLASS_BIG; }

/* Frees before HAKMEM has started, and all frees while hooks are on. */
static HK_NOINLINE void free_at_the_edge(enum hk_call call, void *block, uint32_t entry)
{
    if (!hk_life_started() && hk_life_is_bootstrapping())
        return;
    if (call != HK_CALL_FREE && is_big(entry))
        hk_big_check(call, block);
    if (!hk_hooks.on || !free_seen(block, entry))
        free_named(call, block, entry);
}

/* Addresses outside the window; all addresses before HAKMEM has started or while hooks are on. */
HK_INLINE void free_elsewhere(enum hk_call call, void *block)
{
    if (block == NULL)
        return;
    uint32_t entry = hk_page_map_lookup((uintptr_t)block);
    bool at_the_edge = HK_LOAD_SETTLED(hk_hooks.on) || entry == 0 || (call != HK_CALL_FREE && is_big(entry)) ||
                       hk_self->key == HK_NO_KEY;
    if (HK_UNLIKELY(at_the_edge))
        free_at_the_edge(call, block, entry);
    else if (is_big(entry))
        hk_tcache_free_big(hk_container_of(hk_self, struct hk_tcache, hot), block);
    else
        hk_tcache_free(hk_container_of(hk_self, struct hk_tcache, hot), block, entry);
}

HK_NOINLINE void hk_free_elsewhere(void *block) { free_elsewhere(HK_CALL_FREE, block); }
HK_NOINLINE void hk_delete_elsewhere(void *block) { free_elsewhere(HK_CALL_DELETE, block); }

/* free_at_the_edge() checks a big block before a hook sees its free. */
HK_INLINE void free_looked_up(enum hk_call call, void *block, struct hk_hot *hot)
{
    uint32_t entry = hk_hit_entry(block);
    bool at_the_edge = entry == 0 || (call != HK_CALL_FREE && is_big(entry)) || hot->key == HK_NO_KEY;
    if (HK_UNLIKELY(at_the_edge))
        free_at_the_edge(call, block, entry);
    else
        hk_tcache_free(hk_container_of(hot, struct hk_tcache, hot), block, entry);
}

static HK_NOINLINE void free_not_mine(void *block, struct hk_hot *hot) { free_looked_up(HK_CALL_FREE, block, hot); }
static HK_NOINLINE void delete_not_mine(void *block, struct hk_hot *hot) { free_looked_up(HK_CALL_DELETE, block, hot); }

/* Most are remote frees, and most of these join a word that the outbox has already. */
HK_NOINLINE void hk_free_not_mine(void *block, struct hk_hot *hot)
{
    if (HK_UNLIKELY(!hk_outbox_put_fast(hk_outbox_beside(hot), block)))
        free_not_mine(block, hot);
}

HK_NOINLINE void hk_delete_not_mine(void *block, struct hk_hot *hot)
{
    if (HK_UNLIKELY(!hk_outbox_put_fast(hk_outbox_beside(hot), block)))
        delete_not_mine(block, hot);
}

HK_NOINLINE void hk_free_full(void *block, struct hk_hot *hot, size_t offset)
{
    hk_tcache_keep(hk_container_of(hot, struct hk_tcache, hot), (unsigned)(offset / HK_CLASS_BYTES), block);
}

HK_EXPORT void hak_free(void *block)
{
    struct hk_hot *hot;
    size_t offset;
    enum hk_free_end end = hk_hit_free(block, &hot, &offset);
    if (HK_UNLIKELY(end == HK_FREE_ELSEWHERE))
        hk_free_elsewhere(block);
    else if (HK_UNLIKELY(end == HK_FREE_NOT_MINE))
        hk_free_not_mine(block, hot);
    else if (HK_UNLIKELY(end == HK_FREE_FULL))
        hk_free_full(block, hot, offset);
}

HK_EXPORT void hak_free_sized(void *block, size_t size)
{
    (void)size;
    hak_free(block);
}

HK_EXPORT void hak_free_aligned_sized(void *block, size_t alignment, size_t size)
{
    (void)alignment;
    (void)size;
    hak_free(block);
}

HK_REPLACES(void, free, (void *block), hak_free)
HK_REPLACES(void, __libc_free, (void *block), hak_free)
