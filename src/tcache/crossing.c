/* Decides which blocks of other owners' slabs a thread keeps in its bins. */
#include "tcache/layout.h"

enum {
    KEEP_FROM = 1024,
    CROSSES = 16,          /* the thread keeps blocks of a class once the field `misses` has this value */
    BLOCKS_PER_COUNT = 64, /* the blocks of a bitmap word, because `sent` counts words */
    MOST_COUNTED = 64,     /* limit of `sent` and `returned`, so that they soon are 0 after an exchange has ended */
};

static uint64_t bit_of(unsigned class) { return (uint64_t)1 << class; }
static uint8_t more(uint8_t count, size_t by) { return (uint8_t)hk_min(count + by, MOST_COUNTED); }
static uint8_t less(uint8_t count) { return (uint8_t)(count - (count > 0)); }

/* Before the class is kept, sends the outbox's blocks, because free looks into the outbox first, and would find entries of the class there. */
static void note_miss(struct hk_tcache *cache, unsigned class)
{
    struct hk_crossing *crossing = &cache->crossings[class];
    bool crosses = crossing->sent > 0 && crossing->returned > 0;
    crossing->sent = less((uint8_t)hk_min(crossing->sent, MOST_COUNTED));
    crossing->returned = less(crossing->returned);
    crossing->misses = crosses ? more(crossing->misses, crossing->misses < CROSSES) : less(crossing->misses);
    if (crossing->misses == 0)
        cache->hot.keeps &= ~bit_of(class);
    else if (crossing->misses == CROSSES && !hk_crossing_keeps(cache, class)) {
        hk_outbox_send_all(&cache->outbox);
        cache->hot.keeps |= bit_of(class);
    }
}

void hk_crossing_missed(struct hk_tcache *cache, unsigned class)
{
    if (class >= HK_FINE_CLASSES)
        return; /* medium blocks are not kept by hk_hit_keep(), because it would leave their marks set */
    if (hk_classes[class].size >= KEEP_FROM)
        cache->hot.keeps |= bit_of(class);
    else if (!hk_remote_track.on) /* the remote track can only follow blocks that go home */
        note_miss(cache, class);
}

void hk_crossing_returned(struct hk_tcache *cache, unsigned class, size_t blocks)
{
    cache->crossings[class].returned =
        more(cache->crossings[class].returned, (blocks + BLOCKS_PER_COUNT - 1) / BLOCKS_PER_COUNT);
}

/* A full bin shows that the thread frees more blocks than it allocates. A flush of kept blocks takes long, because each may lie in another slab. */
void hk_crossing_overflowed(struct hk_tcache *cache, unsigned class)
{
    if (hk_classes[class].size >= KEEP_FROM)
        return;
    cache->crossings[class].misses = 0;
    cache->hot.keeps &= ~bit_of(class);
}

void hk_crossing_forget(struct hk_tcache *cache)
{
    memset(cache->crossings, 0, sizeof cache->crossings);
    cache->hot.keeps &= ~(bit_of(hk_class_of(KEEP_FROM)) - 1);
}
