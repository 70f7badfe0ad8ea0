/* Marks the large blocks whose mapping a system call of the program changes, so that no request reuses these blocks. */
#include "large/large_modified.h"

#include "base/bits.h"
#include "large/large_cache.h"

static void alter_locked(struct hk_large_block *large)
{
    bool cached = hk_link_linked(&large->link) && !large->modified;
    if (cached)
        hk_large_leave_cache_locked(large);
    large->modified = true;
    if (cached)
        hk_large_spoil_locked(large);
}

static void mark_locked(uintptr_t start, uintptr_t end)
{
    for (struct hk_large_block *large;
         (large = hk_extents_below(&hk_large.extents, end)) != NULL && large->d.start + large->d.bytes > start;) {
        alter_locked(large);
        end = large->d.start;
    }
}

void hk_large_note_modified(uintptr_t start, size_t size)
{
    uintptr_t end = start + hk_min(size, UINTPTR_MAX - start);
    if (start >= hk_load(hk_large.xhighest) || end <= hk_load(hk_large.xlowest))
        return;
    if (hk_large_lock_in_some_tries()) {
        mark_locked(start, end);
        hk_unlock(&hk_large.lock);
    } else
        hk_store(hk_large.xunnoted, true);
}

void hk_large_mark_all_locked(void)
{
    hk_store(hk_large.xunnoted, false);
    mark_locked(0, UINTPTR_MAX);
}
