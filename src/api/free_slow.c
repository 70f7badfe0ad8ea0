#include "api/free_slow.h"

#include "api/heap_blocks.h"
#include "big/big.h"
#include "guard/sampled.h"
#include "guard/sized.h"
#include "prof/hooks.h"
#include "runtime/life.h"
#include "slab/live.h"
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
static void free_named(enum hk_call call, void *block, uint32_t entry, void *caller)
{
    struct hk_tcache *cache = hk_life_cache();
    if (entry == 0 && hk_sampled_has(block))
        hk_sampled_free(call, block, caller);
    else if (entry == 0)
        hk_tcache_free_foreign(call, block);
    else
        hk_tcache_free(cache, block, entry);
}

HK_NOINLINE void hk_free_slow(enum hk_call call, void *block, uint32_t entry, size_t size)
{
    if (!hk_life_started() && hk_life_is_bootstrapping())
        return;
    if (HK_UNLIKELY(hk_entry_is_heap(entry))) {
        hk_free_in_heap(call, block, entry, hk_self);
        return;
    }
    if (call != HK_CALL_FREE && hk_entry_is_big(entry))
        hk_big_check(call, block);
    if (hk_entry_is_large(entry))
        hk_live_end(call, block);
    if (size != HK_SIZE_UNKNOWN)
        hk_sized_check(call, block, entry, size);
    if (!HK_LOAD_SETTLED(hk_hooks.on) || !free_seen(block, entry))
        free_named(call, block, entry, __builtin_return_address(0)); /* of free: its callers here jump */
}
