#include "api/entry.h"
#include "front/cache.h"
#include "guard/watch.h"
#include "hakmem.h"
#include "runtime/life.h"
#include "slab/lodge.h"
#include "tiers/bigcache.h"

static size_t class_size(const void *block, uint32_t route)
{
    if (hk_route_is_mixed(route))
        return hk_lodge_bytes(block);
    return hk_route_is_plain(route) ? hk_classes[hk_route_class(route)].size : 0;
}

/* Only big blocks have a rule. */
static HK_COLD void free_by_rule(enum hk_site_rule rule, void *block)
{
    if (rule == HK_SITE_KEEP_WARM)
        hk_big_keep(block, hk_site_keep_until());
    else
        hk_big_drop(block);
}

static bool free_seen(void *block, uint32_t route)
{
    enum hk_site_rule rule = hk_watch_free(block, hk_watch.traces ? class_size(block, route) : 0);
    if (HK_UNLIKELY(rule != HK_SITE_NO_RULE)) {
        free_by_rule(rule, block);
        return true;
    }
    return hk_hit_give(block, route);
}

/* A wrong pointer that can be told at once is, by the name of its call. */
static void free_named(enum hk_call call, void *block, uint32_t route)
{
    struct hk_cache *cache = hk_life_cache();
    if (route == 0)
        hk_cache_free_foreign(call, block);
    else
        hk_cache_free(cache, block, route);
}

static bool is_big(uint32_t route) { return route != 0 && hk_route_class(route) == HK_CLASS_BIG; }

/* All frees come here where calls are to be seen. */
static HK_NOINLINE void free_at_the_edge(enum hk_call call, void *block, uint32_t route)
{
    if (!hk_life_started() && hk_life_dawning())
        return;
    if (call != HK_CALL_FREE && is_big(route))
        hk_big_check(call, block);
    if (!hk_watch.on || !free_seen(block, route))
        free_named(call, block, route);
}

/* Outside the window, or before HAKMEM has started, or where calls are to be seen. */
HK_INLINE void free_elsewhere(enum hk_call call, void *block)
{
    if (block == NULL)
        return;
    uint32_t route = hk_map_lookup((uintptr_t)block);
    bool ask_first = HK_LOAD_SETTLED(hk_watch.on) || route == 0 || (call != HK_CALL_FREE && is_big(route)) || hk_self->key == HK_NO_KEY;
    if (HK_UNLIKELY(ask_first))
        free_at_the_edge(call, block, route);
    else if (is_big(route))
        hk_cache_free_big(hk_container_of(hk_self, struct hk_cache, front), block);
    else
        hk_cache_free(hk_container_of(hk_self, struct hk_cache, front), block, route);
}

HK_NOINLINE void hk_free_elsewhere(void *block) { free_elsewhere(HK_CALL_FREE, block); }
HK_NOINLINE void hk_delete_elsewhere(void *block) { free_elsewhere(HK_CALL_DELETE, block); }

/* Big blocks are asked about at the edge, before anybody calls it a free. */
HK_INLINE void free_looked_up(enum hk_call call, void *block, struct hk_front *front)
{
    uint32_t route = hk_hit_route(block);
    bool ask_first = route == 0 || (call != HK_CALL_FREE && is_big(route)) || front->key == HK_NO_KEY;
    if (HK_UNLIKELY(ask_first))
        free_at_the_edge(call, block, route);
    else
        hk_cache_free(hk_container_of(front, struct hk_cache, front), block, route);
}

static HK_NOINLINE void free_not_mine(void *block, struct hk_front *front) { free_looked_up(HK_CALL_FREE, block, front); }
static HK_NOINLINE void delete_not_mine(void *block, struct hk_front *front) { free_looked_up(HK_CALL_DELETE, block, front); }

/* Most are blocks of other threads, most of these neighbours of what waits already to go to them. */
HK_NOINLINE void hk_free_not_mine(void *block, struct hk_front *front)
{
    if (HK_UNLIKELY(!hk_outbox_put_fast(&front->outbox, block)))
        free_not_mine(block, front);
}

HK_NOINLINE void hk_delete_not_mine(void *block, struct hk_front *front)
{
    if (HK_UNLIKELY(!hk_outbox_put_fast(&front->outbox, block)))
        delete_not_mine(block, front);
}

HK_NOINLINE void hk_free_full(void *block, struct hk_front *front, size_t offset)
{
    hk_cache_keep(hk_container_of(front, struct hk_cache, front), (unsigned)(offset / HK_CLASS_BYTES), block);
}

HK_EXPORT void hak_free(void *block)
{
    struct hk_front *front;
    size_t offset;
    enum hk_free_end end = hk_hit_free(block, &front, &offset);
    if (HK_UNLIKELY(end == HK_FREE_ELSEWHERE))
        hk_free_elsewhere(block);
    else if (HK_UNLIKELY(end == HK_FREE_NOT_MINE))
        hk_free_not_mine(block, front);
    else if (HK_UNLIKELY(end == HK_FREE_FULL))
        hk_free_full(block, front, offset);
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
