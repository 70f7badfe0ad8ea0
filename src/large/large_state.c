/* Holds the lists, the totals and the lock of large blocks. */
#include "large/large_state.h"

enum {
    TRIES_FOR_SIGNALS = 100, /* longer than the lock is held */
};

struct hk_large hk_large = {.lock = HK_LOCK_INIT(HK_RANK_LARGE)};

void hk_large_init(void)
{
    hk_lock_register(HK_RANK_LARGE, &hk_large.lock);
    hk_list_init(&hk_large.cached);
    hk_list_init(&hk_large.kept);
    hk_list_init(&hk_large.pending_unmap);
    hk_large.sorted = &hk_large.cached.head;
    hk_large.room_unsorted = HK_LARGE_MOST_UNSORTED;
    hk_list_init(&hk_large.with_slack);
}

void hk_large_total(struct hk_large_totals *totals)
{
    hk_lock(&hk_large.lock);
    *totals = hk_large.totals;
    hk_unlock(&hk_large.lock);
}

bool hk_large_lock_in_some_tries(void)
{
    if (HK_DEBUG && !hk_lock_is_in_order(HK_RANK_LARGE)) /* a signal came where its thread holds a later lock */
        return false;
    for (int i = 0; i < TRIES_FOR_SIGNALS; i++) {
        if (hk_try_lock(&hk_large.lock))
            return true;
        HK_SPIN_HINT();
    }
    return false;
}
