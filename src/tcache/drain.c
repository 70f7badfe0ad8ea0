/* Collects the remote frees of this thread's slabs. If blocks are short, also takes remote frees of other owners' slabs. */
#include "tcache/layout.h"
#include "slab/abandoned.h"
#include "slab/slab_heap.h"

enum {
    ASLEEP_MS = 10,           /* an owner is asleep if it has not read the clock for so long */
    OWNERS_PER_MISS = 8,      /* most owners whose inboxes a miss searches for blocks to steal */
    SLABS_WORTH_STEALING = 4, /* a miss steals only if at least so many slabs of the class wait in inboxes */
    SLABS_PER_MISS = 4,       /* most slabs that a miss takes from an inbox of its class */
    SLABS_PER_SLAB = 64,      /* most slabs that a miss drains before it makes a slab; the drain takes about 50 us */
};

/* Turns the remote frees of a chain of slabs into free blocks. Returns the number of these blocks. */
static size_t take_back(struct hk_tcache *cache, struct hk_slab *chain)
{
    size_t blocks = 0;
    for (struct hk_slab *slab = chain, *next; slab != NULL; slab = next) {
        next = hk_inbox_next(slab);
        unsigned class = slab->d.class;
        size_t got = hk_slab_heap_collect(&cache->owner, slab);
        hk_crossing_returned(cache, class, got);
        blocks += got;
    }
    if (blocks > 0) {
        HK_COUNT_THREAD(&cache->owner.counts, remote_drained, blocks);
        HK_TRACE(&cache->owner.ring, drain, blocks, 0);
    }
    return blocks;
}

void hk_drain_some(struct hk_tcache *cache)
{
    for (uint64_t left = hk_load(cache->owner.xpending); left != 0; left &= left - 1)
        take_back(cache, hk_inbox_take(&cache->owner, hk_ctz64(left), (unsigned)HK_POLICY(drain_slabs)));
}

static bool is_out_of_blocks(struct hk_tcache *cache, unsigned class)
{
    bool ready = hk_bin_items(&cache->hot.bins[class]) > 0 || cache->depot.classes[class].blocks > 0;
    return !ready && !hk_slab_heap_has_partial(&cache->owner, class);
}

/* Drains slabs of a class, until *wanted bytes are freed or *slabs_left slabs are drained. Reduces *wanted and *slabs_left accordingly. */
static void drain_class(struct hk_tcache *cache, unsigned class, size_t *wanted, unsigned *slabs_left)
{
    for (; *wanted > 0 && *slabs_left > 0; --*slabs_left) {
        struct hk_slab *slab = hk_inbox_take(&cache->owner, class, 1);
        if (slab == NULL)
            return;
        *wanted -= hk_min(*wanted, take_back(cache, slab) * hk_classes[class].size);
    }
}

/* Moves claimed blocks of a slab into the bin until the bin is full. The other blocks become remote frees again. Returns the number moved. */
static unsigned receive(struct hk_tcache *cache, struct hk_slab *slab, uint64_t *bits)
{
    struct hk_bin *bin = &cache->hot.bins[slab->d.class];
    size_t room = hk_bin_capacity(bin) - hk_bin_items(bin);
    unsigned got = 0;
    for (unsigned word = 0; word < slab->words; word++)
        for (; bits[word] != 0 && got < room; bits[word] &= bits[word] - 1, got++) {
            hk_track_step(slab, HK_TRACK_RECEIVE, word, bits[word] & -bits[word]);
            *++bin->top = hk_slab_block(slab, word * 64 + hk_ctz64(bits[word]));
        }
    if (hk_remote_put_back(slab, bits))
        hk_send(slab);
    return got;
}

/* Takes over a slab from another owner's inbox, with its remote frees, so that the next frees of its blocks are hits. If the slab cannot be taken
 * over, moves its remote frees into this thread's bin. Returns the number of blocks. */
static unsigned steal_idle(struct hk_tcache *cache, struct hk_slab *slab)
{
    uint64_t bits[HK_SLAB_MOST_WORDS] = {0};
    bool joins = hk_load(slab->xjoined) != NULL; /* joined blocks do not fit the bin, because their class is larger */
    /* Not for medium slabs, because hk_slab_heap_resize() relies on the holder of a slab whose block is in use. */
    if (slab->d.class < HK_FINE_CLASSES && hk_slab_heap_take_queued(&cache->owner, slab))
        return hk_slab_heap_collect(&cache->owner, slab);
    if (joins || hk_remote_claim(slab, bits) == 0) {
        hk_send(slab);
        return 0;
    }
    hk_remote_let_go(slab, bits);
    return receive(cache, slab, bits);
}

/* Moves remote frees of a few slabs of owner `id` into this thread's bin. Returns the number of moved blocks. */
static unsigned steal_chain(struct hk_tcache *cache, uint32_t id, unsigned class, uint64_t asleep_since)
{
    unsigned blocks = 0;
    bool last;
    struct hk_slab *slab = hk_inbox_steal(hk_owner_by_id(id), class, SLABS_PER_MISS, asleep_since, &last);
    for (struct hk_slab *next; slab != NULL; slab = next) {
        next = hk_inbox_next(slab);
        blocks += steal_idle(cache, slab);
    }
    if (blocks > 0) {
        HK_COUNT_THREAD(&cache->owner.counts, remote_stolen, blocks);
        HK_TRACE(&cache->owner.ring, steal, blocks, 0);
    }
    return blocks;
}

/* Fills the bin with remote frees from the inbox of an owner that is asleep and therefore does not drain them. */
static void steal(struct hk_tcache *cache, unsigned class)
{
    uint32_t end = hk_owner_end();
    uint64_t asleep_since = cache->ticker.now - hk_min(cache->ticker.now, ASLEEP_MS);
    for (unsigned tries = 0; tries < OWNERS_PER_MISS; tries++) {
        uint32_t id = cache->owner.next_victim < end ? cache->owner.next_victim : HK_FIRST_OWNER;
        cache->owner.next_victim = id + 1;
        if (id != cache->owner.id && steal_chain(cache, id, class, asleep_since) > 0)
            return;
    }
}

void hk_tcache_steal_all(struct hk_tcache *cache)
{
    hk_tcache_enter(cache);
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        for (uint32_t id = HK_FIRST_OWNER;
             (id = hk_owner_next(id)) < hk_owner_end() && hk_load(hk_queued_slabs[class]) > 0; id++) {
            struct hk_bin *bin = &cache->hot.bins[class];
            if (id != cache->owner.id && (hk_bin_capacity(bin) > 0 || hk_bin_grow(cache, class)) &&
                hk_bin_items(bin) == 0)
                steal_chain(cache, id, class, UINT64_MAX);
        }
    hk_tcache_leave(cache);
}

HK_NOINLINE void hk_drain_for_miss(struct hk_tcache *cache, unsigned class)
{
    /* Drains slabs of the class until it has got blocks for more than half of the bin. Does not drain more, because the drain may leave a slab
     * without live blocks. The slab would then be released, and the next miss would have to make a new slab. */
    size_t wanted = (hk_bin_capacity(&cache->hot.bins[class]) / 2 + 1) * hk_classes[class].size;
    unsigned slabs_left = SLABS_PER_MISS;
    drain_class(cache, class, &wanted, &slabs_left);
    if (!is_out_of_blocks(cache, class))
        return;
    /* Drains as many bytes as a new slab has, so that undrained frees waste no more memory than the heap grew by. */
    wanted = hk_classes[class].slab_bytes;
    slabs_left = SLABS_PER_SLAB;
    for (uint64_t left = hk_load(cache->owner.xpending); left != 0; left &= left - 1)
        drain_class(cache, hk_ctz64(left), &wanted, &slabs_left);
    bool worth_stealing = hk_load(hk_queued_slabs[class]) >= SLABS_WORTH_STEALING;
    if (worth_stealing && is_out_of_blocks(cache, class) && !hk_abandoned_has(class))
        steal(cache, class);
}

void hk_drain_all(struct hk_tcache *cache)
{
    while (hk_load(cache->owner.xpending) != 0)
        hk_drain_some(cache);
}
