#include "big/big_state.h"

enum {
    TRIES_FOR_SIGNALS = 100, /* longer than the lock is held */
};

struct hk_big hk_big = {.lock = HK_LOCK_INIT(HK_RANK_BIG)};

void hk_big_init(void)
{
    hk_lock_register(HK_RANK_BIG, &hk_big.lock);
    hk_list_init(&hk_big.cached);
    hk_list_init(&hk_big.kept);
    hk_list_init(&hk_big.spoiled);
    hk_big.sorted = &hk_big.cached.head;
    hk_big.room_unsorted = HK_BIG_MOST_UNSORTED;
    hk_list_init(&hk_big.with_slack);
}

void hk_big_total(struct hk_big_totals *totals)
{
    hk_lock(&hk_big.lock);
    *totals = hk_big.totals;
    hk_unlock(&hk_big.lock);
}

bool hk_big_lock_in_some_tries(void)
{
    for (int i = 0; i < TRIES_FOR_SIGNALS; i++) {
        if (hk_try_lock(&hk_big.lock))
            return true;
        HK_SPIN_HINT();
    }
    return false;
}
