#include "front/cache.h"

#include <string.h>

#include "base/bits.h"
#include "base/fatal.h"
#include "front/bins.h"
#include "front/pool.h"
#include "policy/policy.h"
#include "slab/lodge.h"
#include "slab/registry.h"
#include "span/dawn.h"
#include "span/foreign.h"
#include "span/meta.h"
#include "span/runs.h"
#include "tiers/bigcache.h"
#include "tiers/blocks.h"
#include "tiers/giveback.h"

enum {
    SLOW_CALLS_PER_TICK = 16,
    REMOTE_FREES_PER_TICK = 64,
    BLOCKS_PER_PASS = 1024, /* of idle bins: some 50 microseconds */
    EFFORT_FOR_GROWTH = 32 * HK_EFFORT_OF_CALL, /* some 50 microseconds, where a tick's slow calls touch a MiB */
    QUICK_TURN = 4,
    KEPT_BY_ANYBODY_FROM = 1024,
    ASLEEP_MS = 10,
    OWNERS_ASKED = 8,
    NEW_FOR = 160, /* blocks */
    SLABS_WORTH_STEALING = 4,
    LOOKED_AT_A_BIRTH = 8, /* caches: more than one goes for each that comes, while one in eight is a dead thread's */
    LOOKED_AT_A_PASS = 64,
    SLABS_PER_MISS = 4,
    SLABS_PER_SLAB = 64,  /* 50 microseconds */
    SLABS_PER_TICK = 16, /* of a class: what strangers free is taken back no faster than this, so that no call takes long */
};

struct hk_front hk_front_unborn, hk_front_dying HK_COLD_DATA;
struct hk_gate hk_gate;

/* Written at start, not by the loader: 240 pointers to relocate are 8 KiB of the file. Nobody looks before the gate is open. */
static void shut_front(struct hk_front *front)
{
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        hk_bin_reset(&front->bins[class]);
    front->key = HK_NO_KEY;
    hk_outbox_shut(&front->outbox);
}

/* Shut for hits, the gate lets nothing pass, as before the start: every call is a miss. */
void hk_gate_open(size_t sizes_to)
{
    shut_front(&hk_front_unborn);
    if (sizes_to == HK_ALL_HIT) {
        hk_window_open();
        __atomic_store_n(&hk_gate.coarse_sizes, HK_LARGE_MAX - HK_FINE_MAX, __ATOMIC_RELEASE);
    }
    if (sizes_to > 0)
        __atomic_store_n(&hk_gate.sizes_below, hk_min(sizes_to, HK_FINE_MAX) + 1, __ATOMIC_RELEASE);
}

_Thread_local struct hk_front *hk_self = &hk_front_unborn;

void hk_cache_open_ring(struct hk_ring *ring)
{
    if (hk_options.trace_ring == 0)
        return;
    size_t size = hk_ring_size(hk_options.trace_ring);
    struct hk_event *events = hk_meta_alloc(size * sizeof *events);
    if (events != NULL)
        hk_ring_open(ring, events, size);
}

static void reset_bins(struct hk_cache *cache)
{
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        hk_bin_reset(&cache->front.bins[class]);
    cache->granted = 0;
}

#define HEAP_A_BUDGET (64 * HK_MIB)

/* Grows with the heap: a thread that deals in large blocks needs more than a few of each. */
static size_t budget(void)
{
    size_t heap_a_thread = hk_runs_warm() / hk_max(1, hk_caches_alive());
    return HK_POLICY(thread_cache) * hk_max(1, heap_a_thread / HEAP_A_BUDGET);
}

bool hk_cache_begin(void)
{
    if (!hk_pool_waits() && hk_caches_alive() > 0)
        hk_caches_reap(LOOKED_AT_A_BIRTH);
    struct hk_cache *cache = hk_pool_take();
    if (cache == NULL)
        return false;
    hk_owner_open(&cache->owner);
    reset_bins(cache);
    cache->pulse = hk_giveback_first_pulse();
    cache->pays_for_growth = false;
    cache->sampling = false;
    hk_outbox_open(&cache->front.outbox, &cache->owner);
    cache->front.key = hk_route(cache->owner.id, 0);
    cache->until_tick = REMOTE_FREES_PER_TICK;
    cache->new_for = hk_pool_crowded() ? NEW_FOR : 0;
    cache->next_asked = HK_FIRST_OWNER;
    hk_store(cache->owner.xawake, UINT64_MAX);
    cache->alive = true;
    hk_lifeline_take(&cache->lifeline);
    cache->budget = budget();
    hk_self = &cache->front;
    HK_COUNT(threads_started, 1);
    return true;
}

/* What strangers freed in these slabs. Blocks. */
static size_t take_back(struct hk_cache *cache, struct hk_slab *chain)
{
    size_t blocks = 0;
    for (struct hk_slab *slab = chain, *next; slab != NULL; slab = next) {
        next = hk_inbox_next(slab);
        blocks += hk_blocks_collect(&cache->owner, slab);
    }
    if (blocks > 0) {
        HK_COUNT_THREAD(&cache->owner.counts, remote_drained, blocks);
        HK_TRACE(&cache->owner.ring, drain, blocks, 0);
    }
    return blocks;
}

static void drain_some(struct hk_cache *cache)
{
    for (uint64_t left = hk_load(cache->owner.xpending); left != 0; left &= left - 1)
        take_back(cache, hk_inbox_take(&cache->owner, hk_ctz64(left), SLABS_PER_TICK));
}

static bool is_out_of_blocks(struct hk_cache *cache, unsigned class)
{
    bool ready = hk_bin_items(&cache->front.bins[class]) > 0 || cache->depot.shelves[class].blocks > 0;
    return !ready && !hk_blocks_has_partial(&cache->owner, class);
}

/* Before a slab is cut, as much comes back as it is long: what strangers have freed keeps no more memory than the heap has
 * grown by. */
static void drain_for_slab(struct hk_cache *cache, size_t slab_bytes)
{
    unsigned slabs_left = SLABS_PER_SLAB;
    for (uint64_t left = hk_load(cache->owner.xpending); left != 0; left &= left - 1) {
        unsigned class = hk_ctz64(left);
        for (struct hk_slab *slab; slab_bytes > 0 && slabs_left > 0; slabs_left--) {
            if ((slab = hk_inbox_take(&cache->owner, class, 1)) == NULL)
                break;
            slab_bytes -= hk_min(slab_bytes, take_back(cache, slab) * hk_classes[class].size);
        }
    }
}

/* Into the bin as long as there is room; the rest is free again where it was. */
static unsigned receive(struct hk_cache *cache, struct hk_slab *slab, uint64_t *bits)
{
    struct hk_bin *bin = &cache->front.bins[slab->class];
    size_t room = hk_bin_capacity(bin) - hk_bin_items(bin);
    unsigned left = 0, got = 0;
    for (unsigned word = 0; word < slab->words; word++) {
        for (; bits[word] != 0 && got < room; bits[word] &= bits[word] - 1, got++) {
            size_t index = (size_t)word * 64 + hk_ctz64(bits[word]);
            *++bin->top = (void *)(slab->start + index * slab->block_size);
        }
        if (bits[word] != 0)
            hk_remote_mark(slab, word, bits[word]);
        left += hk_popcount64(bits[word]);
    }
    if (left > 0 && hk_remote_count(slab, left))
        hk_send(slab);
    return got;
}

/* What strangers freed in another thread's slab, taken from its inbox. Blocks. */
static unsigned rob(struct hk_cache *cache, struct hk_slab *slab)
{
    uint64_t bits[HK_SLAB_MOST_WORDS];
    bool lodges = hk_load(slab->xjoined) != NULL; /* then not all blocks are of its class */
    if (lodges || hk_remote_claim(slab, bits) == 0) {
        hk_send(slab);
        return 0;
    }
    hk_remote_let_go(slab, bits);
    return receive(cache, slab, bits);
}

static unsigned rob_chain(struct hk_cache *cache, struct hk_slab *chain)
{
    unsigned blocks = 0;
    for (struct hk_slab *slab = chain, *next; slab != NULL; slab = next) {
        next = hk_inbox_next(slab);
        blocks += rob(cache, slab);
    }
    if (blocks > 0) {
        HK_COUNT_THREAD(&cache->owner.counts, remote_stolen, blocks);
        HK_TRACE(&cache->owner.ring, steal, blocks, 0);
    }
    return blocks;
}

/* What was freed for an owner that sleeps, whoever is short of it may use. */
static void steal(struct hk_cache *cache, unsigned class)
{
    uint32_t end = hk_owner_end();
    uint64_t asleep_since = cache->pulse.now - hk_min(cache->pulse.now, ASLEEP_MS);
    for (unsigned asked = 0; asked < OWNERS_ASKED; asked++) {
        uint32_t id = cache->next_asked < end ? cache->next_asked : HK_FIRST_OWNER;
        cache->next_asked = id + 1;
        struct hk_slab *chain =
            id != cache->owner.id ? hk_inbox_steal(hk_owner_by_id(id), class, SLABS_PER_MISS, asleep_since) : NULL;
        if (rob_chain(cache, chain) > 0)
            return;
    }
}

void hk_cache_rob_all(struct hk_cache *cache)
{
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        for (uint32_t id = hk_owner_next(HK_FIRST_OWNER); id < hk_owner_end() && hk_load(hk_queued_slabs[class]) > 0; id = hk_owner_next(id + 1)) {
            struct hk_bin *bin = &cache->front.bins[class];
            if (id != cache->owner.id && (hk_bin_capacity(bin) > 0 || hk_bin_grow(cache, class)) && hk_bin_items(bin) == 0)
                rob_chain(cache, hk_inbox_steal(hk_owner_by_id(id), class, SLABS_PER_MISS, UINT64_MAX));
        }
}

static bool worth_stealing(unsigned class) { return hk_load(hk_queued_slabs[class]) >= SLABS_WORTH_STEALING; }

/* One slab after the other: a second that is all free would go, and the next miss would cut it anew. */
static void take_back_for_miss(struct hk_cache *cache, unsigned class)
{
    size_t wanted = hk_bin_capacity(&cache->front.bins[class]) / 2, got = 0;
    for (unsigned taken = 0; taken < SLABS_PER_MISS && got <= wanted; taken++) {
        struct hk_slab *slab = hk_inbox_take(&cache->owner, class, 1);
        if (slab == NULL)
            return;
        got += take_back(cache, slab);
    }
}

static HK_NOINLINE void take_what_others_freed(struct hk_cache *cache, unsigned class)
{
    take_back_for_miss(cache, class);
    if (!is_out_of_blocks(cache, class))
        return;
    drain_for_slab(cache, hk_classes[class].slab_bytes);
    if (worth_stealing(class) && is_out_of_blocks(cache, class) && !hk_registry_has(class))
        steal(cache, class);
}

static void drain_all(struct hk_cache *cache)
{
    while (hk_load(cache->owner.xpending) != 0)
        drain_some(cache);
}

static void empty_bins(struct hk_cache *cache)
{
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        hk_bin_empty(cache, class);
        hk_bin_drop(cache, class);
    }
    hk_depot_empty(cache);
}

/* What nothing was served from since the last pass goes back to the slabs; the array, if that has gone before. */
static void shed_idle_bins(struct hk_cache *cache)
{
    size_t left = BLOCKS_PER_PASS;
    for (unsigned class = 0; class < HK_CLASSES; class ++) {
        struct hk_bin *bin = &cache->front.bins[class];
        bool idle = cache->served_at_pass[class] == (uint32_t)bin->served;
        size_t items = hk_bin_items(bin);
        cache->served_at_pass[class] = (uint32_t)bin->served;
        if (!idle || items > left)
            continue;
        left -= items;
        if (items > 0)
            hk_bin_empty(cache, class);
        else
            hk_bin_drop(cache, class);
    }
}

static void pass_seen(struct hk_cache *cache)
{
    hk_pool_pass(cache->pulse.pass_seen);
    hk_depot_age(cache);
    shed_idle_bins(cache);
    hk_outbox_send_all(&cache->front.outbox);
    hk_outbox_drop_idle(&cache->front.outbox);
    hk_blocks_sweep_begin(&cache->owner);
    hk_caches_reap(LOOKED_AT_A_PASS);
}

enum { REMOTE_FREE = 1, SLOW_CALL = REMOTE_FREES_PER_TICK / SLOW_CALLS_PER_TICK };
/* How soon the clock and the heap's growth are looked at again; the heap may grow by a whole slab in a slow call. */
static int weight_of(unsigned class) { return SLOW_CALL + (int)(hk_classes[class].slab_bytes / (2 * HK_UNIT)); }

static void tick(struct hk_cache *cache, int weight)
{
    cache->until_tick -= weight;
    if (HK_LIKELY(cache->until_tick > 0))
        return;
    cache->until_tick = REMOTE_FREES_PER_TICK;
    drain_some(cache);
    bool rested = hk_giveback_look(&cache->pulse);
    hk_store(cache->owner.xawake, cache->pulse.now);
    cache->budget = budget();
    if (cache->front.outbox.table != NULL)
        hk_outbox_tune(&cache->front.outbox, hk_runs_warm());
    if (rested)
        empty_bins(cache);
    if (hk_giveback_tick(&cache->pulse))
        pass_seen(cache);
    if (hk_giveback_growth(&cache->pulse)) {
        hk_blocks_sweep_for_growth(&cache->owner);
        cache->pays_for_growth = true;
    }
    struct hk_sweep share = hk_giveback_share(&cache->pulse);
    if (cache->pays_for_growth)
        share.effort += EFFORT_FOR_GROWTH;
    if (share.effort <= 0 || !hk_blocks_sweep(&cache->owner, &share) || !cache->pays_for_growth)
        return;
    cache->pays_for_growth = false;
    hk_giveback_swept(&cache->pulse);
}

/* A bin that runs empty or over again after a few times its capacity is too small for what the program does. */
static bool too_small(struct hk_cache *cache, unsigned class)
{
    const struct hk_bin *bin = &cache->front.bins[class];
    uint32_t since = (uint32_t)bin->served - cache->served_at_turn[class];
    cache->served_at_turn[class] = (uint32_t)bin->served;
    return hk_bin_capacity(bin) == 0 || since <= QUICK_TURN * hk_bin_capacity(bin);
}

/* Where there is no memory for the bin's array: one block without it. */
static void *take_one(struct hk_cache *cache, unsigned class)
{
    void *block = NULL;
    if (hk_blocks_take(&cache->owner, class, &block + 1, 1) != 0)
        cache->front.bins[class].served++;
    return block;
}

static void count_miss(struct hk_cache *cache, unsigned class, size_t size)
{
    struct hk_miss_counts *counts = &cache->miss_counts[class];
    hk_store(counts->xasked, hk_load(counts->xasked) + size);
    hk_store(counts->xcalls, hk_load(counts->xcalls) + 1);
    hk_store(cache->xmisses, hk_load(cache->xmisses) + 1);
}

HK_NOINLINE void *hk_cache_refill(struct hk_cache *cache, unsigned class, size_t size)
{
    struct hk_bin *bin = &cache->front.bins[class];
    count_miss(cache, class, size);
    HK_TRACE(&cache->owner.ring, miss, hk_classes[class].size, 0);
    tick(cache, weight_of(class));
    if (too_small(cache, class))
        hk_bin_grow(cache, class);
    bool cuts_soon = hk_list_looks_empty(&cache->owner.shelves[class].partial);
    if (hk_load(cache->owner.xpending) != 0 || (cuts_soon && hk_load(hk_queued_slabs[class]) > 0))
        take_what_others_freed(cache, class);
    if (hk_bin_capacity(bin) == 0)
        return take_one(cache, class);
    if (hk_bin_items(bin) == 0)
        hk_bin_fill(cache, class);
    return hk_hit_pop(&cache->front, class * HK_CLASS_BYTES, false);
}

void *hk_cache_alloc(struct hk_cache *cache, unsigned class, size_t size)
{
    void *block = hk_hit_pop(&cache->front, class * HK_CLASS_BYTES, false);
    return HK_LIKELY(block != NULL) ? block : hk_cache_refill(cache, class, size);
}

void *hk_cache_alloc_aligned(struct hk_cache *cache, unsigned class)
{
    void *block = NULL;
    if (hk_blocks_take_own(&cache->owner, class, &block + 1, 1) != 0)
        cache->front.bins[class].served++;
    return block;
}

static bool allocates(const struct hk_cache *cache, unsigned class) { return cache->front.bins[class].served > 0; }

/* A larger block of somebody else's slab is as good in the freer's bin, if that allocates such blocks too: no two threads then write
 * to one cache line, as they would with small ones. */
static bool of_use_here(const struct hk_cache *cache, unsigned class)
{
    return hk_classes[class].size >= KEPT_BY_ANYBODY_FROM && allocates(cache, class);
}

void hk_cache_keep(struct hk_cache *cache, unsigned class, void *block)
{
    struct hk_bin *bin = &cache->front.bins[class];
    if (hk_hit_push(&cache->front, class * HK_CLASS_BYTES, block))
        return;
    HK_COUNT_THREAD(&cache->owner.counts, overflows, 1);
    HK_TRACE(&cache->owner.ring, overflow, hk_classes[class].size, 0);
    tick(cache, weight_of(class));
    bool still_full = hk_bin_items(bin) == hk_bin_capacity(bin);
    if (still_full && (!too_small(cache, class) || !hk_bin_grow(cache, class)))
        hk_bin_shed(cache, class, (hk_bin_items(bin) + 1) / 2);
    if (!hk_hit_push(&cache->front, class * HK_CLASS_BYTES, block))
        hk_give_back(cache, &block, 1);
}

static void send_home(struct hk_cache *cache, void *block)
{
    if (HK_UNLIKELY(hk_outbox_put(&cache->front.outbox, block)))
        tick(cache, REMOTE_FREES_PER_TICK);
    else
        tick(cache, REMOTE_FREE);
}

/* Slabs that nobody holds: under a lock, one block at a time, or many of those that wait. A table is not made for it. */
static void send_to_orphan(struct hk_cache *cache, void *block, uint32_t route)
{
    if (cache->front.outbox.table != NULL)
        send_home(cache, block);
    else
        hk_deliver(block, route);
}

/* The slab of a thread that has ended becomes the freer's if that is short of such blocks itself. Else it stays where whoever
 * is short finds it: a thread that frees and never allocates would keep all it frees from everybody. */
static void free_orphaned(struct hk_cache *cache, void *block, uint32_t route)
{
    unsigned class = hk_route_class(route);
    bool wanted = allocates(cache, class) && !hk_blocks_has_partial(&cache->owner, class);
    struct hk_slab *slab = wanted ? hk_registry_claim(block, class, &cache->owner) : NULL;
    if (slab == NULL) {
        send_to_orphan(cache, block, route);
        return;
    }
    hk_blocks_shelve(&cache->owner, slab);
    hk_cache_keep(cache, class, block);
}

/* A thread that is no longer new gives up what it had from commons when it has had it: it is faster with what is its own. */
static void free_common(struct hk_cache *cache, void *block, uint32_t route)
{
    if (cache->new_for > 0 && hk_hit_push(&cache->front, hk_route_class(route) * HK_CLASS_BYTES, block))
        cache->new_for--;
    else
        send_to_orphan(cache, block, route);
}

HK_COLD const char *hk_cache_foreign_fault(const void *p)
{
    return hk_big_holds(p) ? "pointer inside a block" : "pointer not from this allocator";
}

HK_COLD void hk_cache_free_foreign(enum hk_call call, void *block)
{
    if (hk_dawn_size(block) != SIZE_MAX)
        return;
    if (hk_foreign_readable(block) == 0)
        hk_slab_invalid(call, hk_cache_foreign_fault(block), block);
    HK_COUNT(foreign_frees, 1);
}

void hk_cache_free_big(struct hk_cache *cache, void *block)
{
    hk_big_free(block);
    hk_giveback_stir();
    if (cache != NULL)
        tick(cache, SLOW_CALL);
}

/* In a slab that lodgers are in. */
static HK_NOINLINE void free_mixed(struct hk_cache *cache, void *block, uint32_t route)
{
    uint32_t owner = hk_route_owner(route);
    if (owner == cache->owner.id)
        hk_cache_keep(cache, hk_lodge_class(block), block);
    else if (owner == HK_ORPHAN)
        send_to_orphan(cache, block, route);
    else
        send_home(cache, block);
}

/* Of nobody's slab, of one that lodgers are in, or no slab's; or there is no cache. */
static HK_NOINLINE void free_unowned(struct hk_cache *cache, void *block, uint32_t route)
{
    unsigned class = hk_route_class(route);
    if (HK_UNLIKELY(route == 0))
        hk_cache_free_foreign(HK_CALL_FREE, block);
    else if (class == HK_CLASS_BIG)
        hk_cache_free_big(cache, block);
    else if (cache == NULL)
        hk_deliver(block, route);
    else if (hk_route_is_mixed(route))
        free_mixed(cache, block, route);
    else if (hk_registry_is_common(block))
        free_common(cache, block, route);
    else if (of_use_here(cache, class))
        hk_cache_keep(cache, class, block);
    else
        free_orphaned(cache, block, route);
}

void hk_cache_free(struct hk_cache *cache, void *block, uint32_t route)
{
    unsigned class = hk_route_class(route);
    if (HK_UNLIKELY(!hk_route_is_plain_from(route, HK_FIRST_OWNER)) || HK_UNLIKELY(cache == NULL))
        free_unowned(cache, block, route);
    else if (hk_route_owner(route) == cache->owner.id || of_use_here(cache, class))
        hk_cache_keep(cache, class, block);
    else
        send_home(cache, block);
}

void hk_cache_grew(struct hk_cache *cache, size_t bytes)
{
    tick(cache, bytes >= HK_LARGE_MAX ? REMOTE_FREES_PER_TICK : SLOW_CALL);
}

bool hk_cache_resize(struct hk_cache *cache, void *block, size_t size)
{
    uint32_t route = hk_map_lookup((uintptr_t)block);
    struct hk_slab *slab = hk_slab_at((uintptr_t)block);
    if (cache == NULL || hk_route_owner(route) != cache->owner.id || slab->start != (uintptr_t)block)
        return false;
    bool resized = hk_blocks_resize(&cache->owner, slab, size);
    if (resized)
        HK_COUNT_THREAD(&cache->owner.counts, resized_in_place, 1);
    return resized;
}

size_t hk_cache_trim(struct hk_cache *cache)
{
    drain_all(cache);
    empty_bins(cache);
    hk_outbox_send_all(&cache->front.outbox);
    return hk_blocks_trim(&cache->owner);
}

/* Most processes end without a thread that does. */
static _Atomic bool dying_is_shut;
static void shut_dying(void) { shut_front(&hk_front_dying); }

/* The slabs are let go of before what is left in the inboxes is delivered: by then nobody waits for its thread. */
static void end(struct hk_cache *cache)
{
    drain_all(cache);
    empty_bins(cache);
    hk_outbox_send_all(&cache->front.outbox);
    hk_inboxes_close(&cache->owner);
    hk_blocks_abandon(&cache->owner);
    drain_all(cache);
    hk_outbox_send_all(&cache->front.outbox);
    hk_outbox_drop(&cache->front.outbox);
    hk_giveback_look(&cache->pulse);
    hk_giveback_tick(&cache->pulse);
    hk_giveback_stir();
    HK_COUNT(threads_ended, 1);
    hk_lifeline_drop(&cache->lifeline);
    hk_pool_give(cache);
}

void hk_cache_end(void)
{
    struct hk_cache *cache = hk_cache_self();
    hk_pool_once(&dying_is_shut, shut_dying);
    hk_self = &hk_front_dying;
    if (cache != NULL)
        end(cache);
}

bool hk_caches_reap(unsigned most)
{
    bool reaped = false;
    most = (unsigned)hk_min(most, hk_owner_end() - HK_FIRST_OWNER);
    for (struct hk_cache *cache; (cache = hk_pool_next_torn(&most)) != NULL; reaped = true)
        end(cache);
    return reaped;
}

struct hk_cache *hk_cache_by_id(uint32_t id) { return hk_container_of(hk_owner_by_id(id), struct hk_cache, owner); }

/* What lay in bins and outboxes of threads that the child does not have may be with the user by now: it is counted and left.
 * Their arrays too may have been cut in the middle of a change. */
static void bury(struct hk_cache *cache)
{
    size_t blocks = hk_outbox_forget(&cache->front.outbox) + hk_depot_forget(&cache->depot);
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        blocks += hk_min(hk_bin_items(&cache->front.bins[class]), hk_classes[class].cap);
    HK_COUNT(fork_stranded, blocks);
    hk_lifeline_forget(&cache->lifeline);
    hk_pool_give_locked(cache);
}

void hk_caches_fork_child(void)
{
    struct hk_cache *self = hk_cache_self();
    for (uint32_t id = hk_owner_next(HK_FIRST_OWNER); id < hk_owner_end(); id = hk_owner_next(id + 1)) {
        struct hk_cache *cache = hk_cache_by_id(id);
        if (cache != self && cache->alive)
            bury(cache);
    }
    hk_pool_fork_child(self != NULL);
    hk_outboxes_recount(self != NULL ? &self->front.outbox : NULL);
}
