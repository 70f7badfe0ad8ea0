#include "base/bits.h"
#include "big/big_cache.h"

enum {
    TRIES_TO_NOTE = 100, /* the lock is held for less */
};

static void alter_locked(struct hk_slab *slab)
{
    bool cached = hk_link_linked(&slab->link) && !slab->altered;
    if (cached)
        hk_big_leave_cache_locked(slab);
    slab->altered = true;
    if (cached)
        hk_big_spoil_locked(slab);
}

static void mark_locked(uintptr_t start, uintptr_t end)
{
    for (struct hk_slab *slab; (slab = hk_extents_below(&hk_big.extents, end)) != NULL && slab->start + slab->bytes > start;) {
        alter_locked(slab);
        end = slab->start;
    }
}

/* Not a wait: the thread that holds the lock may be this one, below a signal handler. */
static bool lock_in_some_tries(void)
{
    for (int i = 0; i < TRIES_TO_NOTE; i++) {
        if (hk_try_lock(&hk_big.lock))
            return true;
        HK_SPIN_HINT();
    }
    return false;
}

void hk_big_note_altered(uintptr_t start, size_t size)
{
    uintptr_t end = start + hk_min(size, UINTPTR_MAX - start);
    if (start >= hk_load(hk_big.xhighest) || end <= hk_load(hk_big.xlowest))
        return;
    if (lock_in_some_tries()) {
        mark_locked(start, end);
        hk_unlock(&hk_big.lock);
    } else
        hk_store(hk_big.xunnoted, true);
}

/* Any of them may be what was changed. */
void hk_big_mark_all_locked(void)
{
    hk_store(hk_big.xunnoted, false);
    mark_locked(0, UINTPTR_MAX);
}
