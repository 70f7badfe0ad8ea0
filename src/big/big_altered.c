#include "big/big_altered.h"

#include "base/bits.h"
#include "big/big_cache.h"

static void alter_locked(struct hk_big_block *big)
{
    bool cached = hk_link_linked(&big->link) && !big->altered;
    if (cached)
        hk_big_leave_cache_locked(big);
    big->altered = true;
    if (cached)
        hk_big_spoil_locked(big);
}

static void mark_locked(uintptr_t start, uintptr_t end)
{
    for (struct hk_big_block *big;
         (big = hk_extents_below(&hk_big.extents, end)) != NULL && big->d.start + big->d.bytes > start;) {
        alter_locked(big);
        end = big->d.start;
    }
}

void hk_big_note_altered(uintptr_t start, size_t size)
{
    uintptr_t end = start + hk_min(size, UINTPTR_MAX - start);
    if (start >= hk_load(hk_big.xhighest) || end <= hk_load(hk_big.xlowest))
        return;
    if (hk_big_lock_in_some_tries()) {
        mark_locked(start, end);
        hk_unlock(&hk_big.lock);
    } else
        hk_store(hk_big.xunnoted, true);
}

void hk_big_mark_all_locked(void)
{
    hk_store(hk_big.xunnoted, false);
    mark_locked(0, UINTPTR_MAX);
}
