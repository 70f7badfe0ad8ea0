/* Holds freed blocks back for a random time, in random slots and then in a queue. */
#include "tcache/layout.h"
#include "span/meta.h"

uint64_t hk_quarantine_seed;

static void *swap(void **slot, void *block)
{
    void *before = *slot;
    *slot = block;
    return before;
}

void *hk_quarantine_swap(struct hk_tcache *cache, void *block)
{
    struct hk_quarantine *quarantine = cache->quarantine;
    if (HK_UNLIKELY(quarantine == NULL)) {
        cache->quarantine = quarantine = hk_meta_alloc(sizeof *quarantine);
        if (quarantine == NULL)
            return block;
        quarantine->random = (uintptr_t)cache * 0x9e3779b97f4a7c15u ^ cache->ticker.now ^ hk_quarantine_seed;
    }
    quarantine->random = hk_random_next(quarantine->random);
    block = swap(&quarantine->blocks[quarantine->random >> 60], block);
    unsigned at = quarantine->at;
    quarantine->at = (at + 1) % HK_QUARANTINE_WAITING;
    return swap(&quarantine->blocks[HK_QUARANTINE_MIXED + at], block);
}
_Static_assert(HK_QUARANTINE_MIXED == 1 << 4, "the upper 4 bits of the random number choose the slot");

void hk_quarantine_empty(struct hk_tcache *cache)
{
    struct hk_quarantine *quarantine = cache->quarantine;
    unsigned n = 0;
    if (HK_LIKELY(quarantine == NULL))
        return;
    cache->quarantine = NULL;
    for (unsigned i = 0; i < HK_QUARANTINE_HELD; i++)
        if (quarantine->blocks[i] != NULL)
            quarantine->blocks[n++] = quarantine->blocks[i];
    if (n > 0)
        hk_flush(cache, quarantine->blocks, n);
    hk_meta_free(quarantine, sizeof *quarantine);
}

size_t hk_quarantine_forget(struct hk_tcache *cache)
{
    size_t lost = 0;
    for (unsigned i = 0; cache->quarantine != NULL && i < HK_QUARANTINE_HELD; i++)
        lost += cache->quarantine->blocks[i] != NULL;
    cache->quarantine = NULL;
    return lost;
}
